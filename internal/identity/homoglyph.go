package identity

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// Error codes for names of apps that could mislead people who are asked to authorize an app.
const (
	CodeMixedScripts = "name_mixed_scripts"
	CodeReserved     = "name_reserved"
	CodeTaken        = "name_taken" // an app of a verified company has a name that looks the same
)

// serviceName must not occur in the name of an app.
const serviceName = "stipend"

// Names that people trust with money or accounts. Only a verified company with the same name may use them for its
// apps.
var (
	// trustedWords must not occur as a word in the name of an app.
	trustedWords = skeletons(`adyen airwallex alipay americanexpress amex barclays binance bitpay bitstamp blackrock
		braintree citibank coinbase deutschebank facebook fireblocks github google gusto hsbc instagram intuit kraken
		mastercard metamask microsoft openai paychex payoneer paypal paytm plaid quickbooks remitly revolut salesforce
		santander shopify skrill stripe telegram tether venmo wechat wellsfargo westernunion whatsapp xero zapier zelle`)
	// trustedNames are everyday words, which are reserved only as the whole name of an app.
	trustedNames = skeletons(`adp amazon apple chase circle deel gemini ledger mercury oracle ramp rippling ripple sap
		slack square visa wise workday`)
)

// skeletons returns the set of skeletons of the words in a text.
func skeletons(text string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		all[skeleton(w)] = true
	}
	return all
}

// lookalikes replaces characters that look like Latin letters, or like each other, by a common character. It does not
// list fullwidth, accented and mathematical letters, which Unicode normalization maps.
var lookalikes = strings.NewReplacer(
	// Cyrillic
	"а", "a", "в", "b", "с", "c", "ԁ", "d", "е", "e", "ѐ", "e", "ё", "e", "ғ", "f", "ԍ", "g", "һ", "h", "н", "h", "і", "i",
	"ї", "i", "ј", "j", "к", "k",
	"ӏ", "l", "м", "m", "п", "n", "о", "o", "р", "p", "ԛ", "q", "г", "r", "ѕ", "s", "т", "t", "ц", "u", "ѵ", "v", "ԝ", "w",
	"х", "x", "у", "y", "ү", "y", "з", "3", "ь", "b",
	// Greek
	"α", "a", "β", "b", "ϲ", "c", "ε", "e", "η", "n", "ι", "i", "κ", "k", "ν", "v", "ο", "o", "ρ", "p", "σ", "o", "τ", "t",
	"υ", "u", "χ", "x", "γ", "y", "ω", "w", "ζ", "z", "μ", "u",
	// Armenian
	"օ", "o", "ո", "n", "ս", "u", "հ", "h", "ց", "g", "զ", "q", "ա", "w", "տ", "s",
	// Latin itself
	"ı", "i", "ł", "l", "ø", "o", "đ", "d", "ɑ", "a", "ɡ", "g", "ħ", "h", "ŧ", "t", "æ", "ae", "œ", "oe", "ß", "ss", "ʟ",
	"l", "ꜱ", "s", "ᴘ", "p", "ᴛ", "t",
	"0", "o", "1", "l", "|", "l", "!", "l", "i", "l", "3", "e", "4", "a", "5", "s", "7", "t", "8", "b", "@", "a", "$", "s",
	"€", "e", "rn", "m", "vv", "w", "cl", "d",
)

// skeleton returns a form of a name that is equal for names that look alike. Use it only to compare names.
func skeleton(name string) string {
	folded := strings.ToLower(norm.NFKC.String(strings.ToLower(norm.NFKC.String(name))))
	var b strings.Builder
	for _, r := range norm.NFKD.String(folded) {
		if !unicode.Is(unicode.Mn, r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) {
			b.WriteRune(r)
		}
	}
	// The first pass replaces single characters; the second pass replaces pairs that result from it, such as "rn" by
	// "m".
	text := lookalikes.Replace(lookalikes.Replace(b.String()))
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

// scripts are the scripts that have letters resembling those of another script. A word may contain letters of only
// one of them.
var scripts = []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee,
	unicode.Georgian, unicode.Hebrew, unicode.Arabic, unicode.Coptic}

// mixesScripts reports whether a word contains letters of two scripts.
func mixesScripts(name string) bool {
	separator := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.Is(unicode.Mn, r) }
	for word := range strings.FieldsFuncSeq(norm.NFKC.String(name), separator) {
		seen := map[int]bool{}
		for _, r := range word {
			if i := slices.IndexFunc(scripts, func(s *unicode.RangeTable) bool { return unicode.Is(s, r) }); i >= 0 {
				seen[i] = true
			}
		}
		if len(seen) > 1 {
			return true
		}
	}
	return false
}

// CheckName adds a problem at pointer if people could confuse a name with the service or with a known company. The
// publisher is the company that uses the name.
func CheckName(problems *apierr.List, pointer, name string, publisher Company) {
	if mixesScripts(name) {
		problems.Add(CodeMixedScripts, pointer, "Each word must use letters of one script only.")
		return
	}
	folded := skeleton(name)
	if strings.Contains(folded, skeleton(serviceName)) {
		problems.Add(CodeReserved, pointer, "The name looks like that of this service. Choose another one.")
		return
	}
	reserved := trustedNames[folded] || trustedWords[folded]
	for _, word := range strings.Fields(name) {
		reserved = reserved || trustedWords[skeleton(word)]
	}
	own := publisher.KYBStatus == KYBApproved && strings.Contains(skeleton(publisher.Name), folded)
	if reserved && !own {
		problems.Add(CodeReserved, pointer,
			"The name looks like that of a well-known company and is reserved for it. Choose another one.")
	}
}

// LooksLikeAnother reports whether an app's name could be confused with that of another company's app.
func LooksLikeAnother(ctx context.Context, tx *db.Tx, a App) (bool, error) {
	return nameTaken(ctx, tx, a.CompanyID, skeleton(a.Name), false)
}
