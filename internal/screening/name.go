package screening

import (
	"strings"
	"unicode"

	"github.com/mozillazg/go-unidecode"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// noise are words that one writer gives and another leaves out: particles of names and forms of companies.
var noise = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields(`al el bin ibn de da do di du la le van von der den the of and y e
		mr mrs ms dr prof sir
		ltd limited llc llp lp inc incorporated corp corporation co company gmbh ag kg sa srl sarl spa bv nv oy ab as plc pte pty
		ooo oao zao pao jsc pjsc ojsc cjsc`) {
		words[w] = true
	}
	return words
}()

// fold brings a name to the words that are compared: in Latin letters without marks, lower case, without what is
// noise. The order stays. A name of nothing but noise keeps it.
func fold(name string) []string {
	words, _ := foldAll(name)
	return words
}

// foldAll is fold, and all letters of the name in one, noise too.
func foldAll(name string) (words []string, joined string) {
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

// leastWord is how alike two words must be to count as one, in percent: one letter of four to seven, two of eight or
// more.
const leastWord = 75

// alike says how alike two folded words are, in percent: one less for each percent of letters that must be changed,
// added, removed or swapped with their neighbour. Below leastWord it is 0.
func alike(a, b string) int {
	if a == b {
		return 100
	}
	long := max(len(a), len(b))
	most := min(long*(100-leastWord)/100, 2)
	if most == 0 || long-min(len(a), len(b)) > most {
		return 0
	}
	edits := distance(a, b, most)
	if edits > most {
		return 0
	}
	return 100 - 100*edits/long
}

// distance counts the edits between two words of ASCII, up to a bound; beyond it the count only says that it is more.
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

// score says how alike two folded names are, in percent. Each word of the shorter name is paired with the word of the
// other that is most like it; long words weigh more than short ones. A word that only the longer name has costs a
// little, of a person less than of a firm, because people leave out names that they have. Two names of which one is a
// single word are the same word or different.
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
			if n := alike(word, other); n > best {
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

// class is a word's first letter, as one for letters that transliterations take for one another.
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
