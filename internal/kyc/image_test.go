package kyc

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/testkit"
)

// picture returns a white image with a red mark in the upper left corner.
func picture(w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	draw.Draw(img, image.Rect(0, 0, w/4, h/4), image.NewUniform(color.RGBA{R: 255, A: 255}), image.Point{}, draw.Src)
	return img
}

func asJPEG(img image.Image) []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func asPNG(img image.Image) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// segment returns a JPEG segment.
func segment(marker byte, body string) []byte {
	return append([]byte{0xff, marker, byte((len(body) + 2) >> 8), byte(len(body) + 2)}, body...)
}

// withSegment returns a JPEG file with a segment inserted after the first two bytes.
func withSegment(file, segment []byte) []byte {
	return bytes.Join([][]byte{file[:2], segment, file[2:]}, nil)
}

// chunk returns a PNG chunk.
func chunk(kind string, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	b = append(append(b, kind...), body...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// pngOf returns a PNG with the given header and 1 MiB of zeros as pixels. more are chunks before the pixels.
func pngOf(w, h uint32, depth, color, interlace byte, more ...[]byte) []byte {
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	var data bytes.Buffer
	z := zlib.NewWriter(&data)
	_, _ = z.Write(make([]byte, 1<<20))
	_ = z.Close()
	parts := [][]byte{[]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", append(head, depth, color, 0, 0, interlace))}
	parts = append(parts, more...)
	return bytes.Join(append(parts, chunk("IDAT", data.Bytes()), chunk("IEND", nil)), nil)
}

// sized returns a JPEG with another size and frame type in the header.
func sized(file []byte, w, h uint16, marker byte) []byte {
	file = bytes.Clone(file)
	at := bytes.Index(file, []byte{0xff, 0xc0})
	file[at+1] = marker
	binary.BigEndian.PutUint16(file[at+5:], h)
	binary.BigEndian.PutUint16(file[at+7:], w)
	return file
}

// progressive returns a grayscale JPEG with a number of scans. Each scan is a few bytes long but makes the decoder
// visit all blocks.
func progressive(w, h, scans int) []byte {
	size := string([]byte{byte(h >> 8), byte(h), byte(w >> 8), byte(w)})
	// A Huffman table with the single code 0.
	table := func(class byte, symbol byte) []byte {
		return segment(0xc4, string([]byte{class, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, symbol}))
	}
	blocks := ((w + 7) / 8) * ((h + 7) / 8)
	file := [][]byte{
		{0xff, 0xd8}, segment(0xdb, "\x00"+strings.Repeat("\x01", 64)), segment(0xc2, "\x08"+size+"\x01\x01\x11\x00"),
		table(0x00, 0), segment(0xda, "\x01\x01\x00\x00\x00\x00"), make([]byte, (blocks+7)/8+4), table(0x10, 0xe0),
	}
	for range scans - 1 {
		// 15 bits per run of empty blocks: the code 0, and 14 bits for the number of blocks beyond 16384.
		run := bytes.Repeat([]byte{0}, 2*(blocks/16384+1)+4)
		file = append(file, segment(0xda, "\x01\x01\x00\x01\x3f\x00"), run)
	}
	return bytes.Join(append(file, []byte{0xff, 0xd9}), nil)
}

// Progressive images are accepted. Data after the end of an image does not count toward the limit of scans.
func TestProgressiveImagesAreAccepted(t *testing.T) {
	for name, file := range map[string][]byte{
		"ten scans":           progressive(700, 650, 10),
		"64 scans":            progressive(700, 650, 64),
		"scans after the end": append(progressive(700, 650, 10), bytes.Repeat([]byte{0xff, 0xda}, 100)...),
		"fill bytes at the end": bytes.Replace(progressive(700, 650, 10), []byte{0xff, 0xd9},
			[]byte{0xff, 0xff, 0xff, 0xd9}, 1),
		"baseline, then progressive": append(asJPEG(picture(700, 650)), progressive(700, 650, 64)...),
		"a comment before a scan": bytes.Replace(progressive(700, 650, 10), []byte{0xff, 0xda},
			append(segment(0xfe, "\xff\xd9"), 0xff, 0xda), 1),
	} {
		img, err := NewImageDecoder(1, MinPixels).Read(t.Context(), base64.StdEncoding.EncodeToString(file))
		if err != nil || img.Width != 700 || img.Height != 650 {
			t.Errorf("%s: %d x %d %v", name, img.Width, img.Height, err)
		}
	}
}

// cancelAfter is a context that is canceled after a number of calls of Err.
type cancelAfter struct {
	context.Context
	calls int
}

func (c *cancelAfter) Err() error {
	if c.calls--; c.calls < 0 {
		return context.Canceled
	}
	return nil
}

func TestDecodingStopsWhenTheContextEnds(t *testing.T) {
	noise := picture(700, 650)
	for i := range noise.Pix {
		noise.Pix[i] |= byte(i * i >> 3)
	}
	for name, file := range map[string][]byte{"JPEG": asJPEG(noise), "PNG": asPNG(noise)} {
		h, err := readHeader(file)
		testkit.Check(t, err)
		counter := &cancelAfter{t.Context(), 1 << 30}
		if _, err := rewrite(counter, file, h); err != nil {
			t.Fatal(name, err)
		}
		calls := 1<<30 - counter.calls
		if calls < 20 {
			t.Errorf("%s: the context is checked only %d times", name, calls)
		}
		for _, after := range []int{0, 1, calls / 3, calls - 1} {
			img, err := rewrite(&cancelAfter{t.Context(), after}, file, h)
			if !errors.Is(err, context.Canceled) || img.JPEG != nil {
				t.Errorf("%s canceled after %d of %d checks: %v", name, after, calls, err)
			}
		}
	}
}

func TestUnsupportedImagesAreRejected(t *testing.T) {
	good := asJPEG(picture(800, 600))
	var animated bytes.Buffer
	frame := image.NewPaletted(image.Rect(0, 0, 700, 700), color.Palette{color.Black})
	testkit.Check(t, gif.EncodeAll(&animated, &gif.GIF{Image: []*image.Paletted{frame}, Delay: []int{1}}))
	encode := base64.StdEncoding.EncodeToString
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"nothing":                  {"", ErrImage},
		"no base64":                {"%%%", ErrImage},
		"unpadded":                 {strings.TrimRight(encode(good[:len(good)-1]), "=") + "A", ErrImage},
		"line breaks":              {encode(good)[:76] + "\r\n" + encode(good)[76:], ErrImage},
		"data URL":                 {"data:image/jpeg;base64," + encode(good), ErrImage},
		"url alphabet":             {"_-_-" + encode(good), ErrImage},
		"loose last bits":          {encode(good[:1])[:1] + "9==", ErrImage},
		"text":                     {encode([]byte("hello")), ErrImage},
		"SVG":                      {encode([]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)), ErrImage},
		"PDF":                      {encode([]byte("%PDF-1.7\n")), ErrImage},
		"HTML before a JPEG":       {encode(append([]byte("<html>"), good...)), ErrImage},
		"GIF":                      {encode(animated.Bytes()), ErrImage},
		"animated PNG":             {encode(pngOf(700, 700, 8, 2, 0, chunk("acTL", make([]byte, 8)))), ErrImage},
		"truncated JPEG":           {encode(good[:len(good)/2]), ErrImage},
		"header only":              {encode(good[:20]), ErrImage},
		"truncated PNG":            {encode(asPNG(picture(700, 700))[:500]), ErrImage},
		"PNG of 60000 x 60000":     {encode(pngOf(60000, 60000, 8, 2, 0)), ErrImage},
		"PNG wider than a JPEG":    {encode(pngOf(66000, 600, 8, 0, 0)), ErrImage},
		"PNG of the maximum size":  {encode(pngOf(1<<32-1, 1<<32-1, 8, 2, 0)), ErrImage},
		"PNG without pixels":       {encode(pngOf(0, 700, 8, 2, 0)), ErrImage},
		"PNG with missing pixels":  {encode(pngOf(6300, 6300, 8, 6, 0)), ErrImage}, // 160 MiB are expected
		"16 bits, too much memory": {encode(pngOf(6000, 6000, 16, 6, 0)), ErrImage},
		"JPEG of 65535 x 65535":    {encode(sized(good, 65535, 65535, 0xc0)), ErrImage},
		"progressive, too large":   {encode(sized(good, 6000, 6000, 0xc2)), ErrImage},
		"lossless":                 {encode(sized(good, 800, 600, 0xc3)), ErrImage},
		"65 scans":                 {encode(progressive(700, 700, 65)), ErrImage},
		"23 scans, many pixels":    {encode(progressive(6000, 6000, 23)), ErrImage},
		"scans after a false end": {encode(bytes.Replace(progressive(700, 700, 65), []byte{0xff, 0xda},
			[]byte{0xff, 0xfe, 0, 4, 0xff, 0xd9, 0xff, 0xda}, 1)), ErrImage},
		"too small":                 {encode(asJPEG(picture(800, 599))), ErrImage},
		"one pixel":                 {encode(asPNG(picture(1, 1))), ErrImage},
		"more than 10 MiB":          {encode(append(good, make([]byte, 10<<20)...)), ErrTooLarge},
		"more than 10 MiB of chars": {strings.Repeat("A", 15<<20), ErrTooLarge},
	} {
		img, err := NewImageDecoder(2, MinPixels).Read(t.Context(), c.text)
		if !errors.Is(err, c.want) || img.JPEG != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A sandbox accepts images of any size. All other checks are the same.
func TestSmallImagesNeedADecoderWithoutMinimumSize(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {1, 900}, {599, 599}} {
		for name, file := range map[string][]byte{"JPEG": asJPEG(picture(size[0], size[1])),
			"PNG": asPNG(picture(size[0], size[1]))} {
			text := base64.StdEncoding.EncodeToString(file)
			if img, err := NewImageDecoder(1, 1).Read(t.Context(), text); err != nil || img.Width != size[0] ||
				img.Height != size[1] || !bytes.HasPrefix(img.JPEG, []byte{0xff, 0xd8}) {
				t.Errorf("%s of %v: %d x %d %v", name, size, img.Width, img.Height, err)
			}
			if img, err := NewImageDecoder(1, MinPixels).Read(t.Context(), text); !errors.Is(err, ErrImage) || img.JPEG != nil {
				t.Errorf("%s of %v: %v", name, size, err)
			}
		}
	}
	for name, file := range map[string][]byte{"without pixels": pngOf(0, 1, 8, 2, 0),
		"too large": pngOf(60000, 60000, 8, 2, 0), "truncated": asPNG(picture(1, 1))[:40]} {
		img, err := NewImageDecoder(1, 1).Read(t.Context(), base64.StdEncoding.EncodeToString(file))
		if !errors.Is(err, ErrImage) || img.JPEG != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A stored image is a JPEG of the same size, without any other data of the uploaded file.
func TestStoredImagesContainOnlyPixels(t *testing.T) {
	const canary = "GPS-N48-CANARY <script>alert(1)</script>"
	jpg, pic := asJPEG(picture(900, 650)), asPNG(picture(900, 650))
	exif := segment(0xe1, "Exif\x00\x00"+canary)
	text := bytes.Join([][]byte{pic[:33], chunk("tEXt", []byte("Comment\x00"+canary)), pic[33:]}, nil)
	for name, file := range map[string][]byte{
		"plain JPEG":     jpg,
		"plain PNG":      pic,
		"Exif":           withSegment(jpg, exif),
		"comment":        withSegment(jpg, segment(0xfe, canary)),
		"thumbnail":      withSegment(jpg, segment(0xe0, "JFXX\x00\x10"+canary)),
		"PNG text":       text,
		"trailing bytes": append(bytes.Clone(jpg), "\n<html>"+canary...),
		"PNG and ZIP":    append(bytes.Clone(pic), "PK\x03\x04"+canary...),
	} {
		img, err := NewImageDecoder(2, MinPixels).Read(t.Context(), base64.StdEncoding.EncodeToString(file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := jpeg.Decode(bytes.NewReader(img.JPEG))
		if err != nil || got.Bounds().Size() != (image.Point{X: 900, Y: 650}) || img.Width != 900 || img.Height != 650 {
			t.Errorf("%s: %v %v", name, got.Bounds(), err)
		}
		if bytes.Contains(img.JPEG, []byte("CANARY")) || bytes.Contains(img.JPEG, []byte("Exif")) ||
			!bytes.HasSuffix(img.JPEG, []byte{0xff, 0xd9}) {
			t.Errorf("%s: the image contains more than pixels", name)
		}
	}
}

// The orientation tag is removed, so the pixels are rotated.
func TestImagesAreRotatedByExifOrientation(t *testing.T) {
	upright := picture(900, 650)
	for orientation := 1; orientation <= 8; orientation++ {
		// Every orientation is its own inverse, except the quarter turns 6 and 8.
		stored := oriented{upright, map[int]int{6: 8, 8: 6}[orientation]}
		if stored.orientation == 0 {
			stored.orientation = orientation
		}
		tiff := []byte("II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00" + string(rune(orientation)) +
			"\x00\x00\x00\x00\x00\x00\x00")
		file := withSegment(asJPEG(stored), segment(0xe1, "Exif\x00\x00"+string(tiff)))
		img, err := NewImageDecoder(1, MinPixels).Read(t.Context(), base64.StdEncoding.EncodeToString(file))
		testkit.Check(t, err)
		got, err := jpeg.Decode(bytes.NewReader(img.JPEG))
		testkit.Check(t, err)
		r, g, _, _ := got.At(100, 80).RGBA()
		if got.Bounds().Size() != (image.Point{X: 900, Y: 650}) || r < 0xc000 || g > 0x4000 {
			t.Errorf("orientation %d: %v, corner %x %x", orientation, got.Bounds(), r, g)
		}
	}
}

func TestTransparentPixelsBecomeWhite(t *testing.T) {
	bits8 := image.NewNRGBA(image.Rect(0, 0, 700, 700))
	bits16 := image.NewNRGBA64(bits8.Rect)
	palette := image.NewPaletted(bits8.Rect, color.Palette{color.NRGBA{R: 10, A: 0}, color.Black})
	for _, img := range []image.Image{bits8, bits16, palette} {
		out, err := NewImageDecoder(1, MinPixels).Read(t.Context(), base64.StdEncoding.EncodeToString(asPNG(img)))
		testkit.Check(t, err)
		got, _ := jpeg.Decode(bytes.NewReader(out.JPEG))
		if r, g, b, _ := got.At(300, 300).RGBA(); min(r, g, b) < 0xf000 {
			t.Errorf("%T: %x %x %x", img, r, g, b)
		}
	}
}

func TestDecodedImagesAtATimeAreLimitedByNumberAndMemory(t *testing.T) {
	small, large := asPNG(picture(2, 2)), pngOf(7300, 5400, 8, 6, 0)
	t.Run("small", func(t *testing.T) { decodeAtOnce(t, 2, small) })
	t.Run("large", func(t *testing.T) { decodeAtOnce(t, 1, large) })
}

// decodeAtOnce lets a decoder with two slots read a file 7 times concurrently. It fails unless exactly most of them are
// decoded at the same time, or if a waiting call does not return when its context ends.
func decodeAtOnce(t *testing.T, most int, file []byte) {
	t.Helper()
	const senders = 7
	text := base64.StdEncoding.EncodeToString(file)
	in := NewImageDecoder(2, 1)
	entered, leave := make(chan int, senders), make(chan struct{})
	var mu sync.Mutex
	now := 0
	in.rewrite = func(context.Context, []byte, header) (Image, error) {
		mu.Lock()
		now++
		entered <- now
		mu.Unlock()
		<-leave
		mu.Lock()
		now--
		mu.Unlock()
		return Image{}, nil
	}
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			if _, err := in.Read(t.Context(), text); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range senders {
		if n := <-entered; n > most {
			t.Errorf("%d at a time", n)
		}
		if i == most-1 {
			if len(entered) > 0 {
				t.Errorf("more than %d at a time", most)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := in.Read(ctx, text); !errors.Is(err, context.Canceled) {
				t.Errorf("a waiting call with a canceled context: %v", err)
			}
		}
		if i >= most-1 {
			leave <- struct{}{}
		}
	}
	for range most - 1 {
		leave <- struct{}{}
	}
	wg.Wait()
}

func TestTheLargestImagesStayWithinTheMemoryLimit(t *testing.T) {
	testkit.NotQuick(t, "seconds")
	jpg := asJPEG(image.NewYCbCr(image.Rect(0, 0, 7300, 5400), image.YCbCrSubsampleRatio420))
	pic := asPNG(image.NewNRGBA(image.Rect(0, 0, 7300, 5400)))
	for name, file := range map[string][]byte{"JPEG": jpg, "PNG": pic} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		h, err := NewImageDecoder(1, MinPixels).header(file)
		testkit.Check(t, err)
		img, err := rewrite(t.Context(), file[:h.size], h)
		testkit.Check(t, err)
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s of %d x %d, %d bytes: %d bytes allocated, result %d bytes", name, img.Width, img.Height, len(file),
			used, len(img.JPEG))
		if used > maxImageMemory {
			t.Errorf("%s: %d bytes", name, used)
		}
	}
}

// No file makes the decoder panic or return anything but a JPEG within the limits.
func FuzzImage(f *testing.F) {
	jpg := asJPEG(picture(24, 17)) // small, for speed
	f.Add(jpg)
	f.Add(asPNG(image.NewPaletted(image.Rect(0, 0, 24, 17), color.Palette{color.Black, color.White})))
	f.Add(withSegment(jpg,
		segment(0xe1, "Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00")))
	f.Add(sized(jpg, 60000, 60000, 0xc2))
	f.Add(progressive(24, 17, 3))
	f.Add(pngOf(24, 17, 16, 6, 1))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := NewImageDecoder(1, 1).header(file)
		var img Image
		if err == nil {
			img, err = rewrite(t.Context(), file[:h.size], h)
		}
		if err != nil {
			if !errors.Is(err, ErrImage) || img.JPEG != nil {
				t.Fatalf("%v", err)
			}
			return
		}
		cfg, err := jpeg.DecodeConfig(bytes.NewReader(img.JPEG))
		if err != nil || cfg.Width != img.Width || cfg.Height != img.Height || min(img.Width, img.Height) < 1 ||
			len(img.JPEG) > maxImageBytes {
			t.Fatalf("%d x %d, %d bytes: %+v %v", img.Width, img.Height, len(img.JPEG), cfg, err)
		}
	})
}
