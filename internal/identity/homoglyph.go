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

// What the name of an app may not look like. A person who is asked to let it act for them reads the name first.
const (
	CodeMixedScripts = "name_mixed_scripts"
	CodeReserved     = "name_reserved"
	CodeTaken        = "name_taken" // of a verified publisher
)

// house is a name that no app has: it would speak for this service.
const house = "stipend"

// trusted are names that people trust with money or accounts. Only a company of that name has apps with it, once it is
// verified: not as a word of the app's name and, where they are words of everyday language, not as all of it.
var (
	trustedWords = skeletons(
		`adyen airwallex alipay americanexpress amex barclays binance bitpay bitstamp blackrock braintree citibank
		coinbase deutschebank facebook fireblocks github google gusto hsbc instagram intuit kraken mastercard metamask microsoft openai paychex
		payoneer paypal paytm plaid quickbooks remitly revolut salesforce santander shopify skrill stripe telegram tether venmo wechat
		wellsfargo westernunion whatsapp xero zapier zelle`)
	trustedNames = skeletons(
		`adp amazon apple chase circle deel gemini ledger mercury oracle ramp rippling ripple sap slack square visa wise workday`)
)

// skeleton returns a form of a name that is equal for names that look alike. Use it only for comparisons.
func skeletons(text string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		all[skeleton(w)] = true
	}
	return all
}

// alike are characters that look like Latin letters or like each other, beside those that Unicode itself takes for the
// same (fullwidth ones, those with accents, mathematical ones). A skeleton has what stands on the right.
var alike = strings.NewReplacer(
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

// skeleton is what a name looks like at a glance: two names with one skeleton are easily taken for each other. It is
// for comparisons only.
func skeleton(name string) string {
	folded := strings.ToLower(norm.NFKC.String(strings.ToLower(norm.NFKC.String(name))))
	var b strings.Builder
	for _, r := range norm.NFKD.String(folded) {
		if !unicode.Is(unicode.Mn, r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r) {
			b.WriteRune(r)
		}
	}
	// Once for what looks like letters, once for letters that look like others together.
	text := alike.Replace(alike.Replace(b.String()))
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

// scripts are those that a word is looked through for; the first is that of the reserved names.
var scripts = []*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee,
	unicode.Georgian, unicode.Hebrew, unicode.Arabic, unicode.Coptic}

// mixesScripts reports whether a word contains letters of two scripts that are not written together.
func mixesScripts(name string) bool {
	for word := range strings.FieldsFuncSeq(norm.NFKC.String(name), func(r rune) bool {
		return !unicode.IsLetter(r) &&
			!unicode.Is(unicode.Mn, r)
	}) {
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

// checkAppName records a problem at /name if people could confuse the app with the service or a known company.
func checkAppName(problems *apierr.List, name string, publisher Company) {
	if mixesScripts(name) {
		problems.Add(CodeMixedScripts, "/name", "Each word must use letters of one script only.")
		return
	}
	look := skeleton(name)
	if strings.Contains(look, skeleton(house)) {
		problems.Add(CodeReserved, "/name", "The name looks like that of this service. Choose another one.")
		return
	}
	kept := trustedNames[look] || trustedWords[look]
	for _, word := range strings.Fields(name) {
		kept = kept || trustedWords[skeleton(word)]
	}
	own := publisher.KYBStatus == KYBApproved && strings.Contains(skeleton(publisher.Name), look)
	if kept && !own {
		problems.Add(CodeReserved, "/name", "The name looks like that of a well-known company and is reserved for it "+
			"after verification.")
	}
}

// LooksLikeAnother reports whether an app could be confused with one of another publisher.
func LooksLikeAnother(ctx context.Context, tx *db.Tx, a App) (bool, error) {
	return nameTaken(ctx, tx, a.CompanyID, skeleton(a.Name), false)
}
