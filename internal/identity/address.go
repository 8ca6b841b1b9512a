package identity

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
)

// subdivisions are the states and provinces of the countries whose mail or banks require one: ISO 3166-2 codes
// without the country, and names. A code that ISO changed is listed with its former spelling after "/".
var subdivisions = map[string]string{
	"US": "AL Alabama|AK Alaska|AZ Arizona|AR Arkansas|CA California|CO Colorado|CT Connecticut|DE Delaware|DC District of Columbia|FL Florida|GA Georgia|HI Hawaii|ID Idaho|IL Illinois|IN Indiana|IA Iowa|KS Kansas|KY Kentucky|LA Louisiana|ME Maine|MD Maryland|MA Massachusetts|MI Michigan|MN Minnesota|MS Mississippi|MO Missouri|MT Montana|NE Nebraska|NV Nevada|NH New Hampshire|NJ New Jersey|NM New Mexico|NY New York|NC North Carolina|ND North Dakota|OH Ohio|OK Oklahoma|OR Oregon|PA Pennsylvania|RI Rhode Island|SC South Carolina|SD South Dakota|TN Tennessee|TX Texas|UT Utah|VT Vermont|VA Virginia|WA Washington|WV West Virginia|WI Wisconsin|WY Wyoming|AS American Samoa|GU Guam|MP Northern Mariana Islands|PR Puerto Rico|UM United States Minor Outlying Islands|VI Virgin Islands|AA Armed Forces Americas|AE Armed Forces Europe|AP Armed Forces Pacific",
	"CA": "AB Alberta|BC British Columbia|MB Manitoba|NB New Brunswick|NL Newfoundland and Labrador|NT Northwest Territories|NS Nova Scotia|NU Nunavut|ON Ontario|PE Prince Edward Island|QC Quebec|SK Saskatchewan|YT Yukon",
	"BR": "AC Acre|AL Alagoas|AP Amapá|AM Amazonas|BA Bahia|CE Ceará|DF Distrito Federal|ES Espírito Santo|GO Goiás|MA Maranhão|MT Mato Grosso|MS Mato Grosso do Sul|MG Minas Gerais|PA Pará|PB Paraíba|PR Paraná|PE Pernambuco|PI Piauí|RJ Rio de Janeiro|RN Rio Grande do Norte|RS Rio Grande do Sul|RO Rondônia|RR Roraima|SC Santa Catarina|SP São Paulo|SE Sergipe|TO Tocantins",
	"AU": "ACT Australian Capital Territory|NSW New South Wales|NT Northern Territory|QLD Queensland|SA South Australia|TAS Tasmania|VIC Victoria|WA Western Australia",
	"MX": "AGU Aguascalientes|BCN Baja California|BCS Baja California Sur|CAM Campeche|CHP Chiapas|CHH Chihuahua|CMX/DIF Ciudad de México|COA Coahuila de Zaragoza|COL Colima|DUR Durango|GUA Guanajuato|GRO Guerrero|HID Hidalgo|JAL Jalisco|MEX México|MIC Michoacán de Ocampo|MOR Morelos|NAY Nayarit|NLE Nuevo León|OAX Oaxaca|PUE Puebla|QUE Querétaro|ROO Quintana Roo|SLP San Luis Potosí|SIN Sinaloa|SON Sonora|TAB Tabasco|TAM Tamaulipas|TLA Tlaxcala|VER Veracruz de Ignacio de la Llave|YUC Yucatán|ZAC Zacatecas",
	"IN": "AN Andaman and Nicobar Islands|AP Andhra Pradesh|AR Arunachal Pradesh|AS Assam|BR Bihar|CH Chandigarh|CG/CT Chhattisgarh|DH/DN/DD Dadra and Nagar Haveli and Daman and Diu|DL Delhi|GA Goa|GJ Gujarat|HR Haryana|HP Himachal Pradesh|JK Jammu and Kashmir|JH Jharkhand|KA Karnataka|KL Kerala|LA Ladakh|LD Lakshadweep|MP Madhya Pradesh|MH Maharashtra|MN Manipur|ML Meghalaya|MZ Mizoram|NL Nagaland|OD/OR Odisha|PY Puducherry|PB Punjab|RJ Rajasthan|SK Sikkim|TN Tamil Nadu|TS/TG Telangana|TR Tripura|UP Uttar Pradesh|UK/UT Uttarakhand|WB West Bengal",
}

// states maps a country's folded codes and names to codes.
var states = sync.OnceValue(func() map[string]map[string]string {
	all := map[string]map[string]string{}
	for country, list := range subdivisions {
		all[country] = map[string]string{}
		for entry := range strings.SplitSeq(list, "|") {
			codes, name, _ := strings.Cut(entry, " ")
			code, _, _ := strings.Cut(codes, "/")
			for spelling := range strings.SplitSeq(codes, "/") {
				all[country][fold(spelling)] = code
				all[country][fold(country+"-"+spelling)] = code
			}
			all[country][fold(name)] = code
		}
	}
	return all
})

// fold removes case, accents, spaces and punctuation.
func fold(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, norm.NFD.String(text))
}

// hasStates reports whether addresses in the country require a state.
func hasStates(country string) bool { return subdivisions[country] != "" }

// State normalizes a state or province and records a problem if it is invalid. For a country with a list (see
// hasStates) it accepts a code or name and returns the code; otherwise it accepts a line of text.
func State(problems *apierr.List, pointer, text, country string, required bool) string {
	least := 0
	if required && hasStates(country) {
		least = 1
	}
	text = Line(problems, pointer, text, least, 100)
	if text == "" || !hasStates(country) {
		return text
	}
	code, ok := states()[country][fold(text)]
	if !ok {
		problems.Add("invalid_parameter", pointer, "The value must be a state or province of the country, as code or name.")
	}
	return code
}

// postal is how a country writes its postal codes: the form of the code without gaps, and where the gap goes. A negative place
// counts from the end; a code that ends there has no gap.
type postal struct {
	form string
	gap  string
	at   int
}

// postalCodes are the forms of the larger countries, after the postal code patterns of the Unicode CLDR (postalCodeData,
// release 26, the last to have them) and the addressing pages of the Universal Postal Union for codes introduced since
// (Ireland). A country that is absent takes any short code.
var postalCodes = func() map[string]postal {
	m := map[string]postal{
		"US": {`\d{5}(\d{4})?`, "-", 5}, "PR": {`00[679]\d{2}(\d{4})?`, "-", 5},
		"CA": {`[ABCEGHJ-NPRSTVXY]\d[ABCEGHJ-NPRSTV-Z]\d[ABCEGHJ-NPRSTV-Z]\d`, " ", 3},
		"GB": {`GIR0AA|[A-PR-UWYZ](\d|\d[0-9A-HJKPSTUW]|[A-HK-Y]\d|[A-HK-Y]\d[0-9ABEHMNPRV-Y])\d[ABD-HJLNP-UW-Z]{2}`, " ", -3},
		"IE": {`([AC-FHKNPRTV-Y]\d{2}|D6W)[0-9AC-FHKNPRTV-Y]{4}`, " ", 3},
		"NL": {`[1-9]\d{3}[A-Z]{2}`, " ", 4}, "PL": {`\d{5}`, "-", 2}, "PT": {`\d{4}(\d{3})?`, "-", 4},
		"BR": {`\d{8}`, "-", 5}, "JP": {`\d{7}`, "-", 3}, "SE": {`\d{5}`, " ", 3}, "CZ": {`\d{5}`, " ", 3},
		"SK": {`\d{5}`, " ", 3}, "GR": {`\d{5}`, " ", 3}, "AR": {`[A-HJ-NP-Z]?\d{4}([A-Z]{3})?`, "", 0}, "CL": {`\d{7}`, "", 0},
		"LU": {`(L)?\d{4}`, "", 0}, "LV": {`(LV)?\d{4}`, "", 0}, "LT": {`(LT)?\d{5}`, "", 0}, "MD": {`(MD)?\d{4}`, "", 0},
		"AD": {`AD\d{3}`, "", 0}, "MT": {`[A-Z]{3}\d{2,4}`, " ", 3}, "IS": {`\d{3}`, "", 0}, "TW": {`\d{3}(\d{2,3})?`, "", 0},
		"IL": {`\d{5}(\d{2})?`, "", 0}, "SA": {`\d{5}(\d{4})?`, "-", 5}, "KR": {`\d{5,6}`, "", 0},
		"LB": {`(\d{4}(\d{4})?)?`, " ", 4}, "BN": {`[A-Z]{2}\d{4}`, "", 0}, "SZ": {`[HLMS]\d{3}`, "", 0},
	}
	for form, countries := range map[string]string{
		`\d{4}`: "AF AL AM AT AU BD BE BG CH CV CY DK GE GL GW HU LI LR MK MZ NE NO NZ PH PY SI TN VE ZA",
		`\d{5}`: "BA BT CR CU DE DO DZ EE EG ES FI FR GT HN HR ID IQ IT JO KE KH KW LA LK MA MC MM MN MU MX MY MV NI NP PE PK RS SM SN SD TH TR UA UY VA XK ZM",
		`\d{6}`: "BY CN CO EC IN KG KZ NG PA RO RU SG TJ TM TT UZ VN",
	} {
		for country := range strings.FieldsSeq(countries) {
			m[country] = postal{form: form}
		}
	}
	return m
}()

// noPostalCodes are countries whose mail goes without one.
const noPostalCodes = " AE AG AO AW BF BI BJ BO BQ BS BW BZ CD CF CG CI CK CM CW DJ DM ER FJ GA GD GH GM GN GQ GY HK JM KI KM KN LY ML MO MR MW NR NU QA RW SB SC SL SO SR ST SX SY TD TG TK TL TO TV UG VU YE ZW "

var postalForms = sync.OnceValue(func() map[string]*regexp.Regexp {
	forms := make(map[string]*regexp.Regexp, len(postalCodes))
	for country, p := range postalCodes {
		forms[country] = regexp.MustCompile("^(?:" + p.form + ")$")
	}
	return forms
})

var anyPostalCode = regexp.MustCompile(`^[A-Z0-9](?:[A-Z0-9 \-]{0,10}[A-Z0-9])?$`)

// PostalCode normalizes a postal code to the form of its country and records a problem if it is invalid. Countries
// without postal codes accept none.
func PostalCode(problems *apierr.List, pointer, text, country string, required bool) string {
	least := 0
	if required && !strings.Contains(noPostalCodes, " "+country+" ") {
		least = 1
	}
	text = strings.ToUpper(strings.Join(strings.Fields(Line(problems, pointer, text, least, 20)), " "))
	if text == "" {
		return ""
	}
	form, known := postalCodes[country]
	if !known {
		if !anyPostalCode.MatchString(text) {
			problems.Add("invalid_parameter", pointer, "A postal code may contain letters, digits, spaces and hyphens.")
			return ""
		}
		return text
	}
	text = strings.NewReplacer(" ", "", "-", "").Replace(text)
	if !postalForms()[country].MatchString(text) {
		problems.Add("invalid_parameter", pointer, fmt.Sprintf("The value is not a valid postal code of %s.", country))
		return ""
	}
	at := form.at
	if at < 0 {
		at += len(text)
	}
	if at <= 0 || at >= len(text) {
		return text
	}
	return text[:at] + form.gap + text[at:]
}
