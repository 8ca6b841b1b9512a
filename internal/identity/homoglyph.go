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

// The error codes of app names that could mislead people. A person who is asked to authorize an app sees its name.
const (
	CodeMixedScripts = "name_mixed_scripts"
	CodeReserved     = "name_reserved"
	CodeTaken        = "name_taken" // an app of a verified company has the name
)

// serviceName must not be part of an app's name.
const serviceName = "stipend"

// Names that people trust with money or accounts. Only a verified company of that name may use one for its apps.
var (
	// trustedWords are reserved as a word of an app's name.
	trustedWords = skeletons(`adyen airwallex alipay americanexpress amex barclays binance bitpay bitstamp blackrock
		braintree citibank coinbase deutschebank facebook fireblocks github google gusto hsbc instagram intuit kraken
		mastercard metamask microsoft openai paychex payoneer paypal paytm plaid quickbooks remitly revolut salesforce
		santander shopify skrill stripe telegram tether venmo wechat wellsfargo westernunion whatsapp xero zapier zelle`)
	// trustedNames are everyday words, reserved only as a whole name.
	trustedNames = skeletons(`adp amazon apple chase circle deel gemini ledger mercury oracle ramp rippling ripple sap
		slack square visa wise workday`)
)

// skeletons returns the set of the skeletons of the words of a text.
func skeletons(text string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		all[skeleton(w)] = true
	}
	return all
}

// lookalikes replaces characters that look like Latin letters, or like each other, by one representative. Fullwidth,
// accented and mathematical letters are not listed: Unicode normalization maps those.
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

// skeleton returns a form of a name that is equal for names that look alike. Use it only for comparisons.
func skeleton(name string) string {
	folded := strings.ToLower(norm.NFKC.String(strings.ToLower(norm.NFKC.String(name))))
	var b strings.Builder
	for _, r := range norm.NFKD.String(folded) {
		if !unicode.Is(unicode.Mn, r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) {
			b.WriteRune(r)
		}
	}
	// The first pass maps single characters; the second maps pairs that this produced, such as "rn" to "m".
	text := lookalikes.Replace(lookalikes.Replace(b.String()))
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

// scripts are the scripts with letters that look alike. A word may contain letters of one of them.
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

// CheckName records a problem at pointer if people could confuse the name that a company shows them with the service or
// a known company.
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

// LooksLikeAnother reports whether an app could be confused with an app of another company.
func LooksLikeAnother(ctx context.Context, tx *db.Tx, a App) (bool, error) {
	return nameTaken(ctx, tx, a.CompanyID, skeleton(a.Name), false)
}
