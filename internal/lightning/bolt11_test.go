package lightning_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/testkit"
)

const (
	payee  = "03e7156ae33b0a208d0744199163177e909e80176e55d97a2f221ede0f934dd9ad"
	hash   = "0001020304050607080900010203040506070809000102030405060708090102"
	coffee = "lnbc2500u1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdq5xysxxatsyp3k7enxv4js" +
		"xqzpuaztrnwngzn3kdzw5hydlzf03qdgm2hdq27cqv3agm2awhz5se903vruatfhq77w3ls4evs3ch9zw97j25emudupq63" +
		"nyw24cg27h2rspfj9srp"
	beans = "lnbc25m1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdq5vdhkven9v5sxyetpdeessp" +
		"5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygs9q5sqqqqqqqqqqqqqqqpqsq67gye39hfg3zd8rgc80" +
		"k32tvy9xk2xunwm5lzexnvpx6fd77en8qaq424dxgt56cag2dpt359k3ssyhetktkpqh24jqnjyw6uqd08sgptq44qu"
)

// The examples of BOLT 11.
func TestPaymentRequestsAreRead(t *testing.T) {
	at := time.Unix(1496314658, 0).UTC()
	for text, want := range map[string]lightning.Request{
		coffee: {Network: "bitcoin", Msat: 250_000_000, Created: at, Expiry: time.Minute, Memo: "1 cup coffee", Payee: payee},
		"lnbc2500u1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpquwpc4curk03c9wlrswe7" +
			"8q4eyqc7d8d0xqzpuyk0sg5g70me25alkluzd2x62aysf2pyy8edtjeevuv4p2d5p76r4zkmneet7uvyakky2zr4cusd45t" +
			"ftc9c5fh0nnqpnl2jfll544esqchsrny": {
			Network: "bitcoin", Msat: 250_000_000, Created: at, Expiry: time.Minute, Memo: "ナンセンス 1杯", Payee: payee},
		"lntb20m1pvjluezhp58yjmdan79s6qqdhdzgynm4zwqd5d7xmw5fk98klysy043l2ahrqspp5qqqsyqcyq5rqwzqfqqqsyq" +
			"cyq5rqwzqfqqqsyqcyq5rqwzqfqypqfpp3x9et2e20v6pu37c5d9vax37wxq72un98kmzzhznpurw9sgl2v0nklu2g4d0ke" +
			"ph5t7tj9tcqd8rexnd07ux4uv2cjvcqwaxgj7v4uwn5wmypjd5n69z2xm3xgksg28nwht7f6zspwp3f9t": {
			Network: "testnet", Msat: 2_000_000_000, Created: at, Expiry: time.Hour, Payee: payee,
			DescriptionHash: testkit.Must(lightning.ParseHash(
				"3925b6f67e2c340036ed12093dd44e0368df1b6ea26c53dbe4811f58fd5db8c1"))},
		beans: {Network: "bitcoin", Msat: 2_500_000_000, Created: at, Expiry: time.Hour,
			Memo: "coffee beans", Payee: payee},
		strings.ToUpper(beans): {Network: "bitcoin", Msat: 2_500_000_000, Created: at, Expiry: time.Hour,
			Memo: "coffee beans", Payee: payee},
	} {
		h := testkit.Must(lightning.ParseHash(hash))
		want.Hash = h
		if got, err := lightning.Decode(text); err != nil || got != want {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", text, got, err, want)
		}
	}
	got, err := lightning.Decode("lnbc9678785340p1pwmna7lpp5gc3xfm08u9qy06djf8dfflhugl6p7lgza6dsjxq454gxhj9t7a0sd8" +
		"dgfkx7cmtwd68ye" +
		"tpd5s9xar0wfjn5gpc8qhrsdfq24f5ggrxdaezqsnvda3kkum5wfjkzmfqf3jkgem9wgsyuctwdus9xgrcyqcjcgpzgfskx" +
		"6eqf9hzqnteypzxz7fzypfhg6trddjhygrcyqezcgpzfysywmm5ypxxjemgw3hxjmn8yptk7untd9hxwg3q2d6xjcmtv4ez" +
		"q7pqxgsxzmnyyqcjqmt0wfjjq6t5v4khxxqyjw5qcqp2rzjq0gxwkzc8w6323m55m4jyxcjwmy7stt9hwkwe2qxmy8zpsgg" +
		"7jcuwz87fcqqeuqqqyqqqqlgqqqqn3qq9qn07ytgrxxzad9hc4xt3mawjjt8znfv8xzscs7007v9gh9j569lencxa8xeujz" +
		"kxs0uamak9aln6ez02uunw6rd2ht2sqe4hz8thcdagpleym0j")
	if err != nil || got.Msat != 967_878_534 || got.Expiry != 7*24*time.Hour ||
		got.Hash.String() != "462264ede7e14047e9b249da94fefc47f41f7d02ee9b091815a5506bc8abf75f" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBrokenPaymentRequestsAreRefused(t *testing.T) {
	for why, text := range map[string]string{
		"checksum": "lnbc2500u1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpquwpc4curk03c9wlrswe7" +
			"8q4eyqc7d8d0xqzpuyk0sg5g70me25alkluzd2x62aysf2pyy8edtjeevuv4p2d5p76r4zkmneet7uvyakky2zr4cusd45t" +
			"ftc9c5fh0nnqpnl2jfll544esqchsrnt",
		"no separator": "pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpquwpc4curk03c9wlrswe78q4eyqc7d8" +
			"d0xqzpuyk0sg5g70me25alkluzd2x62aysf2pyy8edtjeevuv4p2d5p76r4zkmneet7uvyakky2zr4cusd45tftc9c5fh0n" +
			"nqpnl2jfll544esqchsrny",
		"mixed case": "LNBC" + coffee[4:],
		"signature": "lnbc2500u1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdq5xysxxatsyp3k7enxv4js" +
			"xqzpuaxtrnwngzn3kdzw5hydlzf03qdgm2hdq27cqv3agm2awhz5se903vruatfhq77w3ls4evs3ch9zw97j25emudupq63" +
			"nyw24cg27h2rspk28uwq",
		"too short": "lnbc1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdpl2pkx2ctnv5sxxmmwwd5kgetjy" +
			"peh2ursdae8g6na6hlh",
		"multiplier": "lnbc2500x1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdq5xysxxatsyp3k7enxv4js" +
			"xqzpujr6jxr9gq9pv6g46y7d20jfkegkg4gljz2ea2a3m9lmvvr95tq2s0kvu70u3axgelz3kyvtp2ywwt0y8hkx2869zq5" +
			"dll9nelr83zzqqpgl2zg",
		"precision": "lnbc2500000001p1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqdq5xysxxatsyp3k7e" +
			"nxv4jsxqzpu7hqtk93pkf7sw55rdv4k9z2vj050rxdr6za9ekfs3nlt5lr89jqpdmxsmlj9urqumg0h9wzpqecw7th56tdm" +
			"s40p2ny9q4ddvjsedzcplva53s",
		"nothing":    "",
		"an address": "bcrt1q9qyqszqgpqyqszqgpqyqszqgpqyqszqgcn2xzm",
	} {
		if got, err := lightning.Decode(text); err == nil {
			t.Errorf("%s: read as %+v", why, got)
		}
	}
}

// Decode never panics, and its results are in range.
func FuzzDecode(f *testing.F) {
	f.Add(coffee)
	f.Add(beans)
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := lightning.Decode(text); err == nil && (r.Msat < 0 || r.Msat > 21e6*1e11 || r.Expiry < 0 ||
			len(r.Payee) != 66) {
			t.Errorf("%+v", r)
		}
	})
}
