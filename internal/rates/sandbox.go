package rates

import (
	"context"
	"errors"
	"strings"

	"github.com/stipend/stipend/internal/money"
)

// sandboxCrypto has the sandbox's prices of crypto assets, in USD per unit.
const sandboxCrypto = `BTC 50000 ETH 2500 POL 0.5 LTC 80 BCH 400 SOL 100 USDC 1 USDT 1 DAI 1 XRP 0.5 XLM 0.1`

// sandboxFiat has the sandbox's rates of currencies, in units per USD.
const sandboxFiat = `
	AED 3.6725 AFN 70 ALL 92 AMD 390 ANG 1.79 AOA 850 ARS 900 AUD 1.5 AWG 1.79 AZN 1.7 BAM 1.8 BBD 2 BDT 110 BGN 1.8
	BHD 0.376 BIF 2850 BMD 1 BND 1.35 BOB 6.91 BRL 5 BSD 1 BTN 83 BWP 13.6 BYN 3.27 BZD 2 CAD 1.36 CDF 2750 CHF 0.9
	CLP 950 CNY 7.2 COP 4000 CRC 510 CUP 24 CVE 101 CZK 23 DJF 178 DKK 6.9 DOP 59 DZD 134 EGP 48 ERN 15 ETB 57 EUR 0.92
	FJD 2.25 FKP 0.8 GBP 0.8 GEL 2.7 GHS 13 GIP 0.8 GMD 68 GNF 8600 GTQ 7.8 GYD 209 HKD 7.8 HNL 24.7 HTG 132 HUF 360
	IDR 16000 ILS 3.7 INR 83 IQD 1310 IRR 42000 ISK 140 JMD 156 JOD 0.709 JPY 150 KES 130 KGS 89 KHR 4080 KMF 453
	KPW 900 KRW 1350 KWD 0.308 KYD 0.83 KZT 450 LAK 21000 LBP 89500 LKR 300 LRD 193 LSL 18.5 LYD 4.85 MAD 10 MDL 17.7
	MGA 4450 MKD 56.7 MMK 2100 MNT 3400 MOP 8.05 MRU 39.7 MUR 46 MVR 15.4 MWK 1735 MXN 17 MYR 4.7 MZN 63.9 NAD 18.5
	NGN 1500 NIO 36.8 NOK 10.8 NPR 133 NZD 1.65 OMR 0.385 PAB 1 PEN 3.75 PGK 3.85 PHP 57 PKR 278 PLN 4 PYG 7500
	QAR 3.64 RON 4.6 RSD 108 RUB 92 RWF 1300 SAR 3.75 SBD 8.45 SCR 13.5 SDG 600 SEK 10.5 SGD 1.35 SHP 0.8 SLE 22.6
	SOS 571 SRD 33 SSP 1300 STN 22.6 SVC 8.75 SYP 13000 SZL 18.5 THB 36 TJS 10.9 TMT 3.5 TND 3.1 TOP 2.35 TRY 32
	TTD 6.78 TWD 32 TZS 2600 UAH 40 UGX 3800 UYU 38.5 UZS 12700 VES 36.5 VND 25000 VUV 119 WST 2.75 XAF 603 XCD 2.7
	XCG 1.79 XOF 603 XPF 110 YER 250 ZAR 18.5 ZMW 26 ZWG 13.6`

type sandbox struct{}

// Sandbox returns a source of fictitious, constant prices: 50,000 USD per bitcoin, 0.92 EUR per USD, and round
// numbers for all other assets. A Refresher that has only this source needs Quorum 1.
func Sandbox() Source { return sandbox{} }

func (sandbox) Name() string { return "sandbox" }

func (sandbox) Fetch(context.Context) ([]Price, error) {
	var prices []Price
	var problems []error
	add := func(r money.Rate, err error) {
		if err != nil {
			problems = append(problems, err)
			return
		}
		prices = append(prices, Price{Rate: r})
	}
	crypto := strings.Fields(sandboxCrypto)
	for i := 0; i+1 < len(crypto); i += 2 {
		add(money.ParseRate(money.Asset(crypto[i]), money.USD, crypto[i+1]))
	}
	fiat := strings.Fields(sandboxFiat)
	for i := 0; i+1 < len(fiat); i += 2 {
		r, err := money.ParseRate(money.USD, money.Asset(fiat[i]), fiat[i+1])
		if err == nil {
			r, err = r.Inverse()
		}
		add(r, err)
	}
	return prices, errors.Join(problems...)
}
