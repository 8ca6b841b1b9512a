package country

import (
	"regexp"
	"strings"
	"time"
)

// algorithm reports whether a value has the right check digits. The value must already match its pattern, in upper
// case and without spaces. get returns other fields of the bank account; it is nil for tax IDs.
type algorithm func(value string, get func(key string) string) bool

// algorithms contains, by name, the check-digit algorithms and other rules that a pattern cannot express. The name of
// an algorithm for one country starts with the country's code.
var algorithms = func() map[string]algorithm {
	all := map[string]algorithm{"nuban": nuban, "pix_key": pixKey}
	for name, valid := range simpleAlgorithms {
		all[name] = func(value string, _ func(string) string) bool { return valid(value) }
	}
	return all
}()

// simpleAlgorithms are the algorithms that need only the value.
var simpleAlgorithms = map[string]func(string) bool{
	// Numbers used in many countries.
	"aba":                  func(s string) bool { return weigh(s, 3, 7, 1)%10 == 0 },
	"baltic_personal_code": baltic,
	"cz_birth_number":      birthNumber,
	"date":                 day8,
	"iban":                 iban,
	"iso7064_mod11_10":     iso11,
	"luhn":                 luhn,
	"rib":                  rib,
	"verhoeff":             verhoeff,

	"sepa_iban": func(s string) bool {
		c := Find(s[:2])
		return c != nil && c.SEPA && c.IBAN != nil && c.IBAN.MatchString(s) && iban(s)
	},

	// Numbers of bank accounts and of account holders.
	"ar_cuit": cuit,
	"cbu": func(s string) bool {
		return (10-weigh(s[:7], 7, 1, 3, 9)%10)%10 == digit(s[7]) && (10-weigh(s[8:21], 3, 9, 7, 1)%10)%10 == digit(s[21])
	},
	"clabe": func(s string) bool {
		sum := 0
		for i := range 17 {
			sum += digit(s[i]) * [3]int{3, 7, 1}[i%3] % 10
		}
		return (10-sum%10)%10 == digit(s[17])
	},
	"br_cpf_or_cnpj": func(s string) bool { return len(s) == 11 && cpf(s) || len(s) == 14 && cnpj(s) },
	"cn_resident_id": func(s string) bool {
		return "10X98765432"[weigh(s[:17], 7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)%11] == s[17]
	},
	// A NIT may be written without its check digit, and numbers of other kinds also have ten digits. Only a number of
	// ten digits that starts with 8 or 9, and thus belongs to a company, certainly has a check digit.
	"co_nit_of_company": func(s string) bool {
		return len(s) != 10 || !numeric(s) || s[0] < '8' || simpleNIT(s)
	},
	"do_cedula_or_rnc": func(s string) bool { return len(s) != 11 || luhn(s) },
	// A person's number is their cédula followed by 001. A company's number has 6 or 9 as its third digit and follows
	// another rule, which is not checked.
	"ec_cedula_or_ruc": func(s string) bool { return s[2] >= '6' || luhn(s[:10]) },
	"ec_cedula":        cedula,
	"es_dni":           dni,
	"gt_nit_or_cui":    func(s string) bool { return len(s) == 13 || guatemalaNIT(s) },
	"id_nik":           nik,
	"nz_account":       newZealand,
	"pe_ruc_digits":    func(s string) bool { return len(s) == 11 && numeric(s) && peruRUC(s) },
	"sn_rib_or_mobile": func(s string) bool { return len(s) != 24 || rib(s) },
	"th_pin":           thai,
	"uy_ci_or_rut": func(s string) bool {
		return len(s) != 12 || negative(weigh(s[:11], 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)) == digit(s[11])
	},

	// Tax IDs.
	"us_ssn": func(s string) bool {
		return s[:3] != "000" && s[:3] != "666" && s[0] != '9' && s[3:5] != "00" && s[5:] != "0000" &&
			s != "078051120" && s != "219099999" && s != "457555462" // invalid: used in advertisements
	},
	"us_itin": func(s string) bool {
		group := s[3:5]
		return between(group, "50", "65") || between(group, "70", "88") || between(group, "90", "92") ||
			between(group, "94", "99")
	},
	"us_ein": func(s string) bool { return strings.Contains(einPrefixes, " "+s[:2]+" ") },

	"ca_sin": func(s string) bool { return s[0] != '0' && s[0] != '8' && luhn(s) },
	"ca_bn":  func(s string) bool { return luhn(s[:9]) },

	// The last character is not checked, because about one in seventy issued numbers violates the rule for it.
	"mx_rfc": func(s string) bool { n := len([]rune(s)); return (n == 12 || n == 13) && day2(s[len(s)-9:len(s)-3]) },
	"mx_curp": func(s string) bool {
		century := "19"
		if s[16] >= 'A' {
			century = "20"
		}
		if !day8(century+s[4:10]) || !strings.Contains(curpStates, " "+s[11:13]+" ") {
			return false
		}
		sum := 0
		for i := range 17 {
			v := int(s[i] - '0')
			if s[i] >= 'A' {
				v = int(s[i]-'A') + 10
			}
			if s[i] > 'N' {
				v++ // Ñ is between N and O
			}
			sum += v * (18 - i)
		}
		return (10-sum%10)%10 == digit(s[17])
	},

	"br_cpf":  cpf,
	"br_cnpj": cnpj,

	"co_nit": simpleNIT,

	"cl_rut": func(s string) bool {
		return "0K987654321"[weighRight(s[:len(s)-1], 2, 3, 4, 5, 6, 7)%11] == s[len(s)-1]
	},

	"pe_ruc": peruRUC,

	"uy_ci": func(s string) bool {
		s = pad(s, 8)
		return (10-weigh(s[:7], 2, 9, 8, 7, 6, 3, 4)%10)%10 == digit(s[7])
	},
	"uy_rut": func(s string) bool {
		return between(s[:2], "01", "22") && s[2:8] != "000000" && s[8:11] == "001" &&
			negative(weigh(s[:11], 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2)) == digit(s[11])
	},

	"py_ruc": func(s string) bool {
		return negative(weighRight(s[:len(s)-1], 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))%10 == digit(s[len(s)-1])
	},

	"ec_ruc": func(s string) bool {
		if !between(s[:2], "01", "24") && s[:2] != "30" && s[:2] != "50" {
			return false
		}
		person := s[2] <= '6' && s[10:] != "000" && luhn(s[:10])
		switch s[2] {
		case '6': // numbers of public bodies and of some people
			return person || s[9:] != "0000" && weigh(s[:9], 3, 2, 7, 6, 5, 4, 3, 2, 1)%11 == 0
		case '9': // numbers of companies
			return s[9:] != "0000" && weigh(s[:9], 3, 2, 7, 6, 5, 4, 3, 2, 1)%11 == 0 ||
				s[10:] != "000" && weigh(s[:10], 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)%11 == 0
		}
		return person
	},

	"ve_rif": func(s string) bool {
		letter := map[byte]int{'V': 4, 'E': 8, 'J': 12, 'P': 16, 'G': 20, 'C': 12}[s[0]]
		return "00987654321"[(letter+weigh(s[1:9], 3, 2, 7, 6, 5, 4, 3, 2))%11] == s[9]
	},

	"cr_cedula": func(s string) bool {
		if len(s) == 10 {
			return s[0] == '0' && s[1] != '0'
		}
		return s[0] != '0'
	},

	"cr_cedula_juridica": func(s string) bool {
		switch kind := s[1:4]; s[0] {
		case '2':
			return kind == "100" || kind == "200" || kind == "300" || kind == "400"
		case '3':
			return between(kind, "002", "014") || between(kind, "101", "110")
		case '4':
			return kind == "000"
		default:
			return kind == "001"
		}
	},

	"gt_nit": guatemalaNIT,

	"sv_nit": func(s string) bool {
		if !strings.Contains("019", s[:1]) {
			return false
		}
		if s[10:13] <= "100" {
			return weigh(s[:13], 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2)%11%10 == digit(s[13])
		}
		return negative(weigh(s[:13], 2, 7, 6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2))%10 == digit(s[13])
	},
	"sv_dui": func(s string) bool { return (10-weigh(s[:8], 9, 8, 7, 6, 5, 4, 3, 2)%10)%10 == digit(s[8]) },

	"do_rnc": func(s string) bool { return (19-weigh(s[:8], 7, 9, 8, 6, 5, 4, 3, 2)%11)%9+1 == digit(s[8]) },

	"gb_nino": func(s string) bool { return !strings.Contains(" BG GB KN NK NT TN ZZ ", " "+s[:2]+" ") },
	"gb_utr":  func(s string) bool { return "21987654321"[weigh(s[1:], 6, 7, 8, 9, 10, 5, 4, 3, 2)%11] == s[0] },

	"ie_pps": func(s string) bool {
		sum := weigh(s[:7], 8, 7, 6, 5, 4, 3, 2)
		if len(s) == 9 && s[8] <= 'I' { // the older last letters W, T and X have no value
			sum += int(s[8]-'A'+1) * 9
		}
		return "WABCDEFGHIJKLMNOPQRSTUV"[sum%23] == s[7]
	},

	// One of the first ten digits must occur two or three times, and each other digit at most once.
	"de_idnr": func(s string) bool {
		var count [10]int
		for i := range 10 {
			count[digit(s[i])]++
		}
		twice := 0
		for _, n := range count {
			if n > 3 {
				return false
			}
			if n > 1 {
				twice++
			}
		}
		return twice == 1 && iso11(s)
	},
	// The other German tax number has a different format in each state, and no published check digit.

	"fr_nif": func(s string) bool { return number(s[:10])%511 == number(s[10:]) },

	"es_nie": func(s string) bool { return dni(string("012"[s[0]-'X']) + s[1:]) },
	// Sources disagree about which kinds of businesses have a digit and which have a letter, so both are accepted.
	"es_cif": func(s string) bool {
		sum := 0
		for i := range 7 {
			n := digit(s[i+1])
			if i%2 == 0 {
				n = n*2/10 + n*2%10
			}
			sum += n
		}
		check := (10 - sum%10) % 10
		return s[8] == byte('0'+check) || s[8] == "JABCDEFGHI"[check]
	},

	"it_codice_fiscale": func(s string) bool {
		sum := 0
		for i := range 15 {
			v := int(s[i] - '0')
			if s[i] >= 'A' {
				v = int(s[i] - 'A')
			}
			if i%2 == 0 {
				v = [26]int{1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23}[v]
			}
			sum += v
		}
		return byte('A'+sum%26) == s[15]
	},

	"pt_nif": func(s string) bool {
		return (11-weigh(s[:8], 9, 8, 7, 6, 5, 4, 3, 2)%11)%11%10 == digit(s[8])
	},

	"nl_bsn": func(s string) bool {
		return number(s) > 0 && (weigh(s[:8], 9, 8, 7, 6, 5, 4, 3, 2)-digit(s[8]))%11 == 0
	},

	// For people born in 2000 or later, the check prepends a 2 to the number.
	"be_nn": func(s string) bool {
		check := number(s[9:])
		return 97-number(s[:9])%97 == check || 97-number("2"+s[:9])%97 == check
	},

	"lu_matricule": func(s string) bool { return day8(s[:8]) && luhn(s[:12]) && verhoeff(s[:11]+s[12:]) },

	"ch_ahv": func(s string) bool { return weigh(s, 1, 3)%10 == 0 },
	"ch_uid": func(s string) bool { return negative(weigh(s[3:11], 5, 4, 3, 2, 7, 6, 5, 4)) == digit(s[11]) },

	"pl_pesel": func(s string) bool {
		month := number(s[2:4])
		century := map[int]string{4: "18", 0: "19", 1: "20", 2: "21", 3: "22"}[month/20]
		return day(century+s[:2], month%20, number(s[4:6])) && weigh(s, 1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)%10 == 0
	},
	"pl_nip": func(s string) bool { return weigh(s[:9], 6, 5, 7, 2, 3, 4, 5, 6, 7)%11 == digit(s[9]) },

	"cz_ico": func(s string) bool { return (11-weigh(s[:7], 8, 7, 6, 5, 4, 3, 2)%11)%10 == digit(s[7]) },

	// A person's number starts with 1 and need not be divisible by 11.
	"sk_dic": func(s string) bool { return s[0] == '1' || number(s)%11 == 0 },

	"hu_adoazonosito": func(s string) bool { return weigh(s[:9], 1, 2, 3, 4, 5, 6, 7, 8, 9)%11 == digit(s[9]) },
	"hu_adoszam":      func(s string) bool { return weigh(s[:8], 9, 7, 3, 1)%10 == 0 },

	"ro_cnp": func(s string) bool {
		if !day2(s[1:7]) {
			return false
		}
		check := weigh(s[:12], 2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9) % 11
		if check == 10 {
			check = 1
		}
		return check == digit(s[12])
	},
	"ro_cui": func(s string) bool {
		s = pad(strings.TrimPrefix(s, "RO"), 10)
		return weigh(s[:9], 7, 5, 3, 2, 1, 7, 5, 3, 2)*10%11%10 == digit(s[9])
	},

	// For people born before 1900, the number contains the month plus 20, and since 2000, the month plus 40.
	"bg_egn": func(s string) bool {
		month := number(s[2:4])
		century := map[int]string{0: "19", 1: "18", 2: "20"}[month/20]
		return century != "" && day(century+s[:2], month%20, number(s[4:6])) &&
			weigh(s[:9], 2, 4, 8, 5, 10, 9, 7, 3, 6)%11%10 == digit(s[9])
	},
	"bg_pnf": func(s string) bool { return weigh(s[:9], 21, 19, 17, 13, 11, 9, 7, 3, 1)%10 == digit(s[9]) },

	"si_davcna": func(s string) bool {
		check := 11 - weigh(s[:7], 8, 7, 6, 5, 4, 3, 2)%11
		return check < 11 && check%10 == digit(s[7])
	},
	"gr_afm": func(s string) bool {
		return weigh(s[:8], 256, 128, 64, 32, 16, 8, 4, 2)%11%10 == digit(s[8])
	},
	"cy_tic": func(s string) bool {
		sum := 0
		for i := range 8 {
			if i%2 == 0 {
				sum += [10]int{1, 0, 5, 7, 9, 13, 15, 17, 19, 21}[digit(s[i])]
			} else {
				sum += digit(s[i])
			}
		}
		return s[:2] != "12" && byte('A'+sum%26) == s[8]
	},

	// A coordination number, which people receive who are not registered residents, contains the day plus 60.
	"se_personnummer": func(s string) bool {
		s = digits(s)
		s = s[len(s)-10:]
		return (day2(s[:6]) || s[4] >= '6' && day2(s[:4]+string(s[4]-6)+s[5:6])) && luhn(s)
	},

	// Temporary numbers contain the day or the month plus 40.
	"no_fodselsnummer": func(s string) bool {
		d, m := number(s[:2])%40, number(s[2:4])%40
		return dayOfEither(s[4:6], m, d) && weigh(s[:10], 3, 7, 6, 1, 8, 9, 4, 5, 2, 1)%11 == 0 &&
			weigh(s, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)%11 == 0
	},
	"no_orgnr": func(s string) bool { return weigh(s, 3, 2, 7, 6, 5, 4, 3, 2, 1)%11 == 0 },

	"dk_cpr": func(s string) bool { return dayOfEither(s[4:6], number(s[2:4]), number(s[:2])%60) },
	"dk_cvr": func(s string) bool { return s[0] != '0' && weigh(s, 2, 7, 6, 5, 4, 3, 2, 1)%11 == 0 },

	"fi_hetu": func(s string) bool {
		return dayOfEither(s[4:6], number(s[2:4]), number(s[:2])) && s[7:10] >= "002" &&
			"0123456789ABCDEFHJKLMNPRSTUVWXY"[number(s[:6]+s[7:10])%31] == s[10]
	},
	"fi_ytunnus": func(s string) bool { return weigh(digits(s), 7, 9, 10, 5, 8, 4, 2, 1)%11 == 0 },

	"is_kennitala": func(s string) bool {
		d := number(s[:2])
		if d > 40 {
			d -= 40 // a company
		}
		return strings.Contains("089", s[9:]) && dayOfEither(s[4:6], number(s[2:4]), d) &&
			weigh(s[:9], 3, 2, 7, 6, 5, 4, 3, 2, 1)%11 == 0
	},

	"lv_personas_kods": func(s string) bool {
		s = digits(s)
		if s[:2] >= "32" { // numbers issued since 2017 have no check digit
			return between(s[:2], "32", "39")
		}
		return dayOfEither(s[4:6], number(s[2:4]), number(s[:2])) &&
			(1+weigh(s[:10], 10, 5, 8, 4, 2, 1, 6, 3, 7, 9))%11%10 == digit(s[10])
	},

	"ua_rnokpp": func(s string) bool {
		return (weigh(s[1:9], 5, 7, 9, 4, 6, 10, 5, 7)-digit(s[0])+11)%11%10 == digit(s[9])
	},
	"ua_edrpou": func(s string) bool {
		weights := []int{1, 2, 3, 4, 5, 6, 7}
		if between(s, "30000000", "60000000") {
			weights = []int{7, 1, 2, 3, 4, 5, 6}
		}
		check := weigh(s[:7], weights...) % 11
		if check == 10 {
			for i := range weights {
				weights[i] += 2
			}
			check = weigh(s[:7], weights...) % 11 % 10
		}
		return check == digit(s[7])
	},

	"rs_jmbg": func(s string) bool {
		millennium := "1"
		if s[4] < '5' {
			millennium = "2"
		}
		return day(millennium+s[4:7], number(s[2:4]), number(s[:2])) &&
			negative(weigh(s[:12], 7, 6, 5, 4, 3, 2))%10 == digit(s[12])
	},

	"kz_iin": func(s string) bool {
		check := weigh(s[:11], 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11) % 11
		if check == 10 {
			check = weigh(s[:11], 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2) % 11
		}
		return day2(s[:6]) && check == digit(s[11]) // numbers with a check value of 10 are never issued
	},

	"tr_tckn": func(s string) bool {
		odd, even := 0, 0
		for i := range 9 {
			if i%2 == 0 {
				odd += digit(s[i])
			} else {
				even += digit(s[i])
			}
		}
		tenth := (odd*7 - even) % 10
		return (tenth+10)%10 == digit(s[9]) && (odd+even+digit(s[9]))%10 == digit(s[10])
	},
	"tr_vkn": func(s string) bool {
		sum := 0
		for i := range 9 {
			v := (digit(s[i]) + 9 - i) % 10
			if w := v * (1 << (9 - i)) % 9; v != 0 && w == 0 {
				sum += 9
			} else {
				sum += w
			}
		}
		return (10-sum%10)%10 == digit(s[9])
	},

	"in_pan":  func(s string) bool { return s[5:9] != "0000" },
	"pk_cnic": func(s string) bool { return s[12] != '0' }, // the last digit is odd for men and even for women

	"lk_nic": func(s string) bool {
		of := s[2:5]
		if len(s) == 12 {
			of = s[4:7]
		}
		n := number(of) // number within the year, plus 500 for women
		return n >= 1 && n <= 366 || n >= 501 && n <= 866
	},

	"id_npwp": func(s string) bool {
		if len(s) == 16 {
			return nik(s) || s[0] == '0' && luhn(s[1:10])
		}
		return luhn(s[:9])
	},

	"vn_cccd": func(s string) bool { return between(s[:3], "001", "096") },
	"vn_mst": func(s string) bool {
		s = digits(s)
		return s[2:9] != "0000000" && (len(s) == 10 || s[10:] != "000") &&
			10-weigh(s[:9], 31, 29, 23, 19, 17, 13, 7, 5, 3)%11 == digit(s[9])
	},

	"my_nric": func(s string) bool {
		place := s[6:8]
		return day2(s[:6]) && place != "00" && !between(place, "17", "20") &&
			!strings.Contains(" 69 70 73 80 81 94 95 96 97 ", " "+place+" ")
	},

	"sg_nric_fin": func(s string) bool {
		sum := weigh(s[1:8], 2, 7, 6, 5, 4, 3, 2)
		switch s[0] {
		case 'T', 'G':
			sum += 4
		case 'M':
			sum += 3
		}
		switch s[0] {
		case 'F', 'G':
			return "XWUTRQPNMLK"[sum%11] == s[8]
		case 'M':
			return "XWUTRQPNJLK"[sum%11] == s[8]
		}
		return "JZIHGFEDCBA"[sum%11] == s[8]
	},
	"sg_uen": func(s string) bool {
		switch {
		case len(s) == 9:
			return "XMKECAWLJDB"[weigh(s[:8], 10, 4, 9, 3, 8, 2, 7, 1)%11] == s[8]
		case s[0] <= '9':
			return "ZKCMDNERGWH"[weigh(s[:9], 10, 8, 6, 4, 9, 7, 5, 3, 1)%11] == s[9]
		}
		const alphabet = "ABCDEFGHJKLMNPQRSTUVWX0123456789"
		sum := -5
		for i, w := range [9]int{4, 3, 5, 3, 10, 2, 2, 5, 7} {
			sum += strings.IndexByte(alphabet, s[i]) * w
		}
		return alphabet[(sum+11)%11] == s[9]
	},

	// A missing first letter counts as a space, which has the value 36.
	"hk_hkid": func(s string) bool {
		if len(s) == 8 {
			s = " " + s
		}
		sum := 0
		for i := range 8 {
			v := 36
			switch {
			case s[i] >= 'A':
				v = int(s[i]-'A') + 10
			case s[i] != ' ':
				v = digit(s[i])
			}
			sum += v * (9 - i)
		}
		return "0A987654321"[sum%11] == s[8]
	},

	"cn_ric": func(s string) bool {
		return strings.Contains(chinaProvinces, " "+s[:2]+" ") && day8(s[6:14]) &&
			"10X98765432"[weigh(s[:17], 7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)%11] == s[17]
	},
	"cn_uscc": func(s string) bool {
		const alphabet = "0123456789ABCDEFGHJKLMNPQRTUWXY"
		sum, weight := 0, 1
		for i := range 17 {
			sum += strings.IndexByte(alphabet, s[i]) * weight
			weight = weight * 3 % 31
		}
		return alphabet[(31-sum%31)%31] == s[17]
	},

	"tw_id": func(s string) bool {
		n := [26]int{10, 11, 12, 13, 14, 15, 16, 17, 34, 18, 19, 20, 21, 22, 35, 23, 24, 25, 26, 27, 28, 29, 32, 30, 31,
			33}[s[0]-'A']
		return (n/10+n%10*9+weigh(s[1:], 8, 7, 6, 5, 4, 3, 2, 1, 1))%10 == 0
	},
	"tw_ubn": func(s string) bool {
		sum := 0
		for i, w := range [8]int{1, 2, 1, 2, 1, 2, 4, 1} {
			n := digit(s[i]) * w
			sum += n/10 + n%10
		}
		return sum%5 == 0 || s[6] == '7' && (sum+1)%5 == 0
	},

	"jp_my_number": func(s string) bool {
		return negative(weigh(s[:11], 6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2))%10 == digit(s[11])
	},
	"jp_corporate_number": func(s string) bool { return 9-weighRight(s[1:], 1, 2)%9 == digit(s[0]) },

	"kr_brn": func(s string) bool {
		return s[:3] > "100" && s[3:5] != "00" && s[5:9] != "0000" &&
			(10-(weigh(s[:9], 1, 3, 7, 1, 3, 7, 1, 3, 5)+digit(s[8])*5/10)%10)%10 == digit(s[9])
	},

	"il_tz": func(s string) bool { return number(s) > 0 && luhn(s) },

	"gh_tin": func(s string) bool {
		for i := 1; i < 10; i++ {
			if s[i] > '9' {
				return false
			}
		}
		return "0123456789X"[weigh(s[1:10], 1, 2, 3, 4, 5, 6, 7, 8, 9)%11] == s[10]
	},
	"za_id": func(s string) bool { return day2(s[:6]) && s[10] <= '1' && luhn(s) },

	"eg_national_id": func(s string) bool {
		place := s[7:9]
		return day8(map[byte]string{'2': "19", '3': "20"}[s[0]]+s[1:7]) &&
			(between(place, "01", "04") || between(place, "11", "19") || between(place, "21", "29") ||
				between(place, "31", "35") || place == "88")
	},

	"ma_ice": func(s string) bool { return number(s)%97 == 0 },

	"rw_nid": func(s string) bool { return between(s[1:5], "1900", "2099") },

	"au_tfn": func(s string) bool { return weigh(s, 1, 4, 3, 7, 5, 8, 6, 9, 10)%11 == 0 },
	"au_abn": func(s string) bool {
		return (weigh(s, 10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19)-10)%89 == 0
	},
	"nz_ird": func(s string) bool {
		s = pad(s, 9)
		if !between(s, "010000000", "150000000") {
			return false
		}
		check := negative(weigh(s[:8], 3, 2, 7, 6, 5, 4, 3, 2))
		if check == 10 {
			check = negative(weigh(s[:8], 7, 4, 3, 2, 5, 2, 7, 6))
		}
		return check == digit(s[8])
	},
}

// einPrefixes are the prefixes that the IRS has assigned.
const einPrefixes = " 01 02 03 04 05 06 10 11 12 13 14 15 16 20 21 22 23 24 25 26 27 30 31 32 33 34 35 36 37 38 39 " +
	"40 41 42 43 44 45 46 47 48 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 71 72 73 74 75 76 77 80 81 " +
	"82 83 84 85 86 87 88 90 91 92 93 94 95 98 99 "

// curpStates are the codes of the states in which people are born; NE means abroad.
const curpStates = " AS BC BS CC CH CL CM CS DF DG GR GT HG JC MC MN MS NE NL NT OC PL QR QT SL SP SR TC TL TS VZ " +
	"YN ZS "

const (
	chinaProvinces = " 11 12 13 14 15 21 22 23 31 32 33 34 35 36 37 41 42 43 44 45 46 50 51 52 53 54 61 62 63 64 " +
		"65 71 81 82 83 91 "
	indonesiaProvinces = " 11 12 13 14 15 16 17 18 19 21 31 32 33 34 35 36 51 52 53 61 62 63 64 65 71 72 73 74 75 76 " +
		"81 82 91 92 93 94 95 96 "
)

func cuit(s string) bool {
	return "09987654321"[weigh(s[:10], 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)%11] == s[10]
}

func cedula(s string) bool { return s[2] <= '6' && luhn(s) }

func dni(s string) bool { return "TRWAGMYFPDXBNJZSQVHLCKE"[number(s[:8])%23] == s[8] }

// brazil returns a Brazilian check digit. From the right, the weights are 2 to last, and then repeat. A result of 10
// or 11 becomes 0.
func brazil(s string, last int) byte {
	sum, weight := 0, 2
	for i := len(s) - 1; i >= 0; i-- {
		sum += digit(s[i]) * weight
		if weight++; weight > last {
			weight = 2
		}
	}
	if sum%11 < 2 {
		return '0'
	}
	return byte('0' + 11 - sum%11)
}

// birthNumber checks a Czech or Slovak birth number. Numbers with nine digits, issued until 1953, have no check
// digit.
func birthNumber(s string) bool {
	year, month := number(s[:2]), number(s[2:4])
	century := 1900
	switch {
	case len(s) == 9 && year > 53:
		century = 1800
	case len(s) == 10 && year < 54:
		century = 2000
	}
	if month > 50 {
		month -= 50 // the number contains the month plus 50 for women
	}
	if month > 20 && century+year >= 2004 {
		month -= 20 // plus 20 if all numbers of a day were used
	}
	if !realDay(century+year, month, number(s[4:6])) {
		return false
	}
	return len(s) == 9 || number(s[:9])%11%10 == digit(s[9])
}

// baltic checks an Estonian or Lithuanian personal code.
func baltic(s string) bool {
	century := map[byte]string{'1': "18", '2': "18", '3': "19", '4': "19", '5': "20", '6': "20", '7': "21",
		'8': "21"}[s[0]]
	if !day8(century + s[1:7]) {
		return false
	}
	check := weigh(s[:10], 1, 2, 3, 4, 5, 6, 7, 8, 9, 1) % 11
	if check == 10 {
		check = weigh(s[:10], 3, 4, 5, 6, 7, 8, 9, 1, 2, 3) % 11 % 10
	}
	return check == digit(s[10])
}

// nik checks an Indonesian identity number, which contains the province of registration and the date of birth, with
// the day plus 40 for women.
func nik(s string) bool {
	return strings.Contains(indonesiaProvinces, " "+s[:2]+" ") && dayOfEither(s[10:12], number(s[8:10]), number(s[6:8])%40)
}

func thai(s string) bool {
	return (11-weigh(s[:12], 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2)%11)%10 == digit(s[12])
}

// simpleNIT checks the last digit of a Colombian NIT.
func simpleNIT(s string) bool {
	return "01987654321"[weighRight(s[:len(s)-1], 3, 7, 13, 17, 19, 23, 29, 37, 41, 43, 47, 53, 59, 67,
		71)%11] == s[len(s)-1]
}

// guatemalaNIT checks the last character of a Guatemalan NIT.
func guatemalaNIT(s string) bool {
	return "0123456789K"[negative(weighRight(s[:len(s)-1], 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13))] == s[len(s)-1]
}

// peruRUC checks the last digit of a Peruvian RUC.
func peruRUC(s string) bool {
	return (11-weigh(s[:10], 5, 4, 3, 2, 7, 6, 5, 4, 3, 2)%11)%10 == digit(s[10])
}

// cpf checks the tax number of a Brazilian person.
func cpf(s string) bool {
	return !repeated(s) && brazil(s[:9], 11) == s[9] && brazil(s[:10], 11) == s[10]
}

// cnpj checks the tax number of a Brazilian company. Since 2026 it may contain letters. The value of a letter is its
// character code minus that of "0".
func cnpj(s string) bool {
	return !repeated(s) && brazil(s[:12], 9) == s[12] && brazil(s[:13], 9) == s[13]
}

func numeric(s string) bool { return strings.Trim(s, "0123456789") == "" }

var (
	pixPhone = regexp.MustCompile(`^\+55[1-9]{2}9?\d{8}$`)
	pixEmail = regexp.MustCompile(`^[^@\s]+@[^@\s]+$`)
	uuid     = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
	marks    = strings.NewReplacer(" ", "", "-", "", ".", "", "/", "", "\u00a0", "", "\u2011", "", "\u2013", "")
)

// pixKey checks a PIX key according to its type in the field pix_key_type. The type is needed because a mobile number
// of eleven digits can also be a valid CPF.
func pixKey(value string, get func(string) string) bool {
	plain := strings.ToUpper(marks.Replace(value))
	switch get("pix_key_type") {
	case "cpf":
		return len(plain) == 11 && numeric(plain) && cpf(plain)
	case "cnpj":
		return len(plain) == 14 && numeric(plain[12:]) && cnpj(plain)
	case "phone":
		return pixPhone.MatchString(value)
	case "email":
		return len(value) <= 77 && pixEmail.MatchString(value)
	case "evp":
		return uuid.MatchString(value)
	}
	return false
}

// nuban checks a Nigerian account number, whose check digit also depends on the bank's code. Codes of other
// institutions have five digits; for the check, a 9 is prepended to them.
func nuban(value string, get func(string) string) bool {
	bank := get("bank_code")
	if len(bank) == 5 {
		bank = "9" + bank
	}
	return (10-weigh(bank+value[:9], 3, 7, 3)%10)%10 == digit(value[9])
}

// mod97 returns the remainder modulo 97 of a number with letters, which have the values 10 to 35.
func mod97(s string) (rest int) {
	for i := range len(s) {
		if c := s[i]; c >= 'A' {
			rest = (rest*100 + int(c-'A') + 10) % 97
		} else {
			rest = (rest*10 + digit(c)) % 97
		}
	}
	return rest
}

// ValidLEI reports whether s is a legal entity identifier (ISO 17442): 18 characters and two check digits.
func ValidLEI(s string) bool {
	return len(s) == 20 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" &&
		strings.Trim(s[18:], "0123456789") == "" && mod97(s) == 1
}

func iban(s string) bool { return len(s) > 4 && mod97(s[4:]+s[:4]) == 1 }

// rib checks the key of a French-style account number. Letters count as digits: A and J as 1; B, K and S as 2; and so
// on.
func rib(s string) bool {
	plain := []byte(s)
	for i, c := range plain {
		if c >= 'A' && c <= 'Z' {
			plain[i] = "12345678912345678923456789"[c-'A']
		}
	}
	return 97-mod97(string(plain[:22])+"00") == digit(plain[22])*10+digit(plain[23])
}

// nzWeights contains the weights of the digits of New Zealand account numbers, which consist of the bank (2 digits),
// branch (4), account (8) and suffix (3).
var nzWeights = map[byte][17]int{
	'A': {0, 0, 6, 3, 7, 9, 0, 0, 10, 5, 8, 4, 2, 1, 0, 0, 0},
	'B': {0, 0, 0, 0, 0, 0, 0, 0, 10, 5, 8, 4, 2, 1, 0, 0, 0},
	'D': {0, 0, 0, 0, 0, 0, 0, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0},
	'E': {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 4, 3, 2, 0, 0, 1},
	'F': {0, 0, 0, 0, 0, 0, 0, 1, 7, 3, 1, 7, 3, 1, 0, 0, 0},
	'G': {0, 0, 0, 0, 0, 0, 0, 1, 3, 7, 1, 3, 7, 1, 3, 7, 1},
}

// newZealand checks an account number according to the rule of its bank.
func newZealand(s string) bool {
	s = strings.ReplaceAll(s, "-", "")
	number := s[:6] + "0" + s[6:13] + strings.Repeat("0", 16-len(s)) + s[13:]
	rule, mod := byte('A'), 11
	switch s[:2] {
	case "08":
		rule = 'D'
	case "09":
		rule = 'E'
	case "25", "33":
		rule, mod = 'F', 10
	case "26", "28", "29":
		rule, mod = 'G', 10
	case "31":
		return true // account numbers of Citibank have no check digit
	default:
		if s[6:13] >= "0990000" {
			rule = 'B'
		}
	}
	sum := 0
	for i, w := range nzWeights[rule] {
		n := digit(number[i]) * w
		if rule == 'E' || rule == 'G' {
			for n > 9 {
				n = n/10 + n%10
			}
		}
		sum += n
	}
	return sum%mod == 0
}

// The following functions compute check digits, weighted sums and dates for the algorithms.

func luhn(s string) bool {
	sum := 0
	for i := range len(s) {
		n := digit(s[len(s)-1-i])
		if i%2 == 1 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// iso11 checks a number according to ISO 7064 MOD 11,10.
func iso11(s string) bool {
	rest := 10
	for i := range len(s) - 1 {
		if rest = (rest + digit(s[i])) % 10; rest == 0 {
			rest = 10
		}
		rest = rest * 2 % 11
	}
	return (rest+digit(s[len(s)-1]))%10 == 1
}

// verhoeff checks a number with Verhoeff's algorithm, which computes in the dihedral group D5.
func verhoeff(s string) bool {
	check := 0
	for i := range len(s) {
		n := digit(s[len(s)-1-i])
		for range i % 8 {
			n = [10]int{1, 5, 7, 6, 2, 8, 3, 0, 9, 4}[n]
		}
		switch a, b := check, n; {
		case a < 5 && b < 5:
			check = (a + b) % 5
		case a < 5:
			check = (a+b-5)%5 + 5
		case b < 5:
			check = (a-5-b+5)%5 + 5
		default:
			check = (a - b + 5) % 5
		}
	}
	return check == 0
}

func digit(c byte) int { return int(c - '0') }

// number returns the value of s, which has at most 18 digits.
func number(s string) int {
	n := 0
	for i := range len(s) {
		n = n*10 + digit(s[i])
	}
	return n
}

// digits returns the digits of s.
func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}

// weigh returns the sum of the digits of s, each multiplied by its weight. The weights repeat.
func weigh(s string, weights ...int) (sum int) {
	for i := range len(s) {
		sum += digit(s[i]) * weights[i%len(weights)]
	}
	return sum
}

// weighRight is like weigh, but starts with the last digit.
func weighRight(s string, weights ...int) (sum int) {
	for i := range len(s) {
		sum += digit(s[len(s)-1-i]) * weights[i%len(weights)]
	}
	return sum
}

// negative returns the remainder of -sum modulo 11.
func negative(sum int) int { return (11 - sum%11) % 11 }

func pad(s string, length int) string { return strings.Repeat("0", max(0, length-len(s))) + s }

func repeated(s string) bool { return strings.Trim(s, s[:1]) == "" }

// between reports whether least <= s <= most, for texts of equal length.
func between(s, least, most string) bool { return s >= least && s <= most }

func realDay(year, month, day int) bool {
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return month >= 1 && month <= 12 && t.Month() == time.Month(month) && day == t.Day()
}

func day(year string, month, day int) bool { return realDay(number(year), month, day) }

// day8 reports whether YYYYMMDD is a date.
func day8(s string) bool { return realDay(number(s[:4]), number(s[4:6]), number(s[6:8])) }
func day2(s string) bool { return dayOfEither(s[:2], number(s[2:4]), number(s[4:6])) }

// dayOfEither reports whether a date exists in the 20th or in the 21st century.
func dayOfEither(year string, month, dayOfMonth int) bool {
	return day("19"+year, month, dayOfMonth) || day("20"+year, month, dayOfMonth)
}
