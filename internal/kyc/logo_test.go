package kyc

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"testing"

	"github.com/stipend/stipend/internal/testkit"
)

// losslessWebP returns a WebP of one color.
func losslessWebP(t *testing.T, w, h uint32) []byte {
	t.Helper()
	file, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(file[21:], (w-1)|(h-1)<<14|1<<28)
	return file
}

// extendedWebP returns a WebP with flags whose canvas and frame have different sizes. It has no pixels.
func extendedWebP(flags byte, canvas, frame uint16) []byte {
	low, high := byte(canvas-1), byte((canvas-1)>>8)
	extended := []byte{flags, 0, 0, 0, low, high, 0, low, high, 0}
	picture := append([]byte{0x30, 1, 0, 0x9d, 1, 0x2a}, byte(frame), byte(frame>>8), byte(frame), byte(frame>>8), 0, 0)
	file := []byte("RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00")
	file = append(append(append(file, extended...), "VP8 \x0c\x00\x00\x00"...), picture...)
	binary.LittleEndian.PutUint32(file[4:], uint32(len(file)-8))
	return file
}

func TestLogosAreScaledDownAndEncodedAgain(t *testing.T) {
	t.Parallel()
	in := NewImageDecoder(1, MinPixels)
	for name, c := range map[string]struct {
		file []byte
		size image.Point
	}{
		"a PNG":           {asPNG(picture(600, 300)), image.Pt(256, 128)},
		"a small PNG":     {asPNG(picture(40, 50)), image.Pt(40, 50)},
		"a JPEG":          {asJPEG(picture(512, 512)), image.Pt(256, 256)},
		"a lossless WebP": {losslessWebP(t, 1024, 512), image.Pt(256, 128)},
		"bytes after it":  {append(asJPEG(picture(64, 64)), "<script>alert(1)</script>"...), image.Pt(64, 64)},
	} {
		out, err := in.ReadLogo(t.Context(), base64.StdEncoding.EncodeToString(c.file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		img, err := png.Decode(bytes.NewReader(out))
		if err != nil || img.Bounds().Size() != c.size || bytes.Contains(out, []byte("script")) {
			t.Errorf("%s: %v, %v", name, err, img.Bounds())
		}
	}
	// A picture that hardly compresses becomes smaller, because payers load it.
	noise := image.NewNRGBA(image.Rect(0, 0, 400, 400))
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise.Pix) // never fails
	small, err := in.ReadLogo(t.Context(), base64.StdEncoding.EncodeToString(asPNG(noise)))
	testkit.Check(t, err)
	if img, err := png.Decode(bytes.NewReader(small)); err != nil || len(small) > logoBytes || img.Bounds().Dx() < 48 {
		t.Errorf("noise: %d bytes, %v, %v", len(small), img.Bounds(), err)
	}
	// Transparency is kept.
	transparent := image.NewNRGBA(image.Rect(0, 0, 300, 300))
	transparent.Set(150, 150, color.White)
	out, err := in.ReadLogo(t.Context(), base64.StdEncoding.EncodeToString(asPNG(transparent)))
	testkit.Check(t, err)
	img, err := png.Decode(bytes.NewReader(out))
	testkit.Check(t, err)
	if _, _, _, a := img.At(2, 2).RGBA(); a != 0 {
		t.Errorf("alpha %d", a)
	}
}

// A file of a few bytes that names a huge size is refused before anything is allocated for its pixels.
func TestLogosAreRefusedByTheirHeader(t *testing.T) {
	t.Parallel()
	in := NewImageDecoder(1, 1)
	huge := asPNG(picture(64, 64))
	binary.BigEndian.PutUint32(huge[16:], 60_000)
	for name, c := range map[string]struct {
		file []byte
		err  error
	}{
		"a huge PNG":                     {huge, ErrImage},
		"a huge lossless WebP":           {losslessWebP(t, 16384, 16384), ErrImage},
		"a WebP with a huge frame":       {extendedWebP(0, 64, 16383), ErrImage},
		"a WebP with a huge canvas":      {extendedWebP(1<<4, 16383, 64), ErrImage},
		"an animated WebP":               {extendedWebP(2, 64, 64), ErrImage},
		"a WebP without a picture":       {extendedWebP(0, 64, 64)[:30], ErrImage},
		"a WebP that ends early":         {extendedWebP(0, 64, 64), ErrImage},
		"an SVG":                         {[]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), ErrImage},
		"a logo of a few pixels":         {asPNG(picture(31, 64)), ErrImage},
		"a file of more than a megabyte": {make([]byte, MaxLogoBytes+1), ErrTooLarge},
	} {
		if _, err := in.ReadLogo(t.Context(), base64.StdEncoding.EncodeToString(c.file)); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
