package screening

import (
	"strings"
	"unicode"

	"github.com/mozillazg/go-unidecode"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// noise are words that are often omitted from names: particles, titles and legal forms of companies.
var noise = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields(`al el bin ibn de da do di du la le van von der den the of and y e
		mr mrs ms dr prof sir
		ltd limited llc llp lp inc incorporated corp corporation co company gmbh ag kg sa srl sarl spa bv nv oy ab as
		plc pte pty ooo oao zao pao jsc pjsc ojsc cjsc`) {
		words[w] = true
	}
	return words
}()

// fold returns the words of a name for comparisons: transliterated to lower-case Latin letters without accents, in
// order and without noise words. It keeps noise words if the name has no other words.
func fold(name string) []string {
	words, _ := foldJoined(name)
	return words
}

// foldJoined is like fold, but also returns all words, including noise words, joined without spaces.
func foldJoined(name string) (words []string, joined string) {
	name = norm.NFKC.String(name)
	name = cases.Fold().String(unidecode.Unidecode(name))
	name = strings.NewReplacer("'", "", "`", "", ".", "").Replace(name)
	all := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	words = make([]string, 0, len(all))
	joined = strings.Join(all, "")
	for _, w := range all {
		if !noise[w] {
			words = append(words, w)
		}
	}
	if len(words) == 0 {
		return all, joined
	}
	return words, joined
}

// minSimilarity is the minimum similarity of two matching words in percent. It allows one edit in a word of 4 to 7
// letters, and two edits in a longer word.
const minSimilarity = 75

// similarity returns the similarity of two folded words in percent: 100 minus the percentage of letters that must be
// edited. It returns 0 below minSimilarity.
func similarity(a, b string) int {
	if a == b {
		return 100
	}
	long := max(len(a), len(b))
	most := min(long*(100-minSimilarity)/100, 2)
	if most == 0 || long-min(len(a), len(b)) > most {
		return 0
	}
	edits := distance(a, b, most)
	if edits > most {
		return 0
	}
	return 100 - 100*edits/long
}

// distance returns the number of edits between two ASCII words: letters changed, added, removed, or swapped with their
// neighbor (optimal string alignment distance). If it is more than most, distance may return any number above most.
func distance(a, b string, most int) int {
	var rows [3][]int
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			n := min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				n = min(n, before[j-2]+1)
			}
			row[j] = n
			least = min(least, n)
		}
		if least > most {
			return least
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// score returns the similarity of two folded names in percent. It pairs each word of the shorter name with the most
// similar word of the longer name and averages the similarities, weighted by length. Each unpaired word reduces the
// score by 8 percent, or by 3 percent for a person, because people often omit some of their names. A name of a single
// word never matches a name of several words.
func score(a, b []string, person bool) int {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) == 0 || len(a) == 1 && len(b) > 1 {
		return 0
	}
	taken := make([]bool, len(b))
	sum, weight := 0, 0
	for _, word := range a {
		best, at := 0, -1
		for j, other := range b {
			if taken[j] {
				continue
			}
			if n := similarity(word, other); n > best {
				best, at = n, j
			}
		}
		if at >= 0 {
			taken[at] = true
		}
		sum += best * len(word)
		weight += len(word)
	}
	cost := 8
	if person {
		cost = 3
	}
	return max(0, sum/weight-cost*(len(b)-len(a)))
}

// class returns the first letter of a word, or one representative for letters that transliterations often exchange.
// Only words of the same class can match.
func class(word string) byte {
	switch c := word[0]; c {
	case 'w':
		return 'v'
	case 'c', 'q', 'x', 'g', 'h':
		return 'k'
	case 'j', 'y', 'e':
		return 'i'
	case 'z':
		return 's'
	case 'p':
		return 'f'
	case 'u':
		return 'o'
	case 't':
		return 'd'
	default:
		return c
	}
}
