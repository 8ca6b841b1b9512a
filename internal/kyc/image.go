package kyc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/stipend/stipend/internal/apierr"
)

// What an image is refused with.
var (
	ErrImage    = apierr.New(apierr.Invalid, "unsupported_image", "The image cannot be read. Send a whole JPEG or PNG.")
	ErrTooLarge = apierr.New(apierr.TooLarge, "payload_too_large", "The image is larger than 10 MiB.")
)

// The bounds of an image. There is no least number of bytes: what makes a document illegible is too few pixels, and a
// sharp black-and-white scan of enough of them may be small.
const (
	maxImageBytes  = 10 << 20
	maxImagePixels = 40_000_000
	maxImageMemory = 200 << 20 // bytes that a decoder may need

	// A progressive JPEG is written in scans, each of which walks over all pixels and may take a few bytes: without a
	// bound, 10 MiB hold hours of work. Encoders write about ten, the most detailed scripts some tens.
	maxScans = 64
	// scans × pixels: the largest picture with twice as many scans as an encoder writes
	maxScanPixels = 20 * maxImagePixels

	// maxImageTime is how long one image may hold a place. The largest ones take a few seconds.
	maxImageTime = 30 * time.Second
)

// Image is a picture that was read and written anew: a JPEG, upright, with nothing in it but pixels.
type Image struct {
	JPEG          []byte
	Width, Height int
}

// MinPixels is the number of pixels that the shorter side of a legible document has at least.
const MinPixels = 600

// ImageDecoder decodes untrusted images. Its memory is bounded: it decodes few at a time, and together they need
// maxImageMemory at most, so small ones go side by side and two of the largest one after the other. Before it is an
// image's turn, nothing of it is held but the text that the request brought.
type ImageDecoder struct {
	slots   chan struct{}
	memory  *semaphore.Weighted
	minSide int
	rewrite func(context.Context, []byte, header) (Image, error) // a variable so that tests can look into it
}

// NewImageDecoder makes an intake that decodes so many images at a time and refuses those whose shorter side has fewer
// than minSide pixels: MinPixels where somebody will look at them.
func NewImageDecoder(atOnce, minSide int) *ImageDecoder {
	return &ImageDecoder{make(chan struct{}, atOnce), semaphore.NewWeighted(maxImageMemory), minSide, rewrite}
}

// Read takes an image in base64 (standard alphabet, padded, without line breaks or a data: prefix) and writes it anew.
// What is not a whole, single JPEG or PNG of a size between the bounds is ErrImage, more than 10 MiB ErrTooLarge. It
// waits for its turn until ctx ends, and stops in the middle of an image then, too.
func (in *ImageDecoder) Read(ctx context.Context, text string) (Image, error) {
	if base64.StdEncoding.DecodedLen(len(text)) > maxImageBytes+2 {
		return Image{}, ErrTooLarge
	}
	// The decoder overlooks line breaks even when it is strict.
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return Image{}, notBase64
	}
	select {
	case in.slots <- struct{}{}:
		defer func() { <-in.slots }()
	case <-ctx.Done():
		return Image{}, ctx.Err()
	}
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	switch {
	case err != nil:
		return Image{}, notBase64
	case len(data) > maxImageBytes:
		return Image{}, ErrTooLarge
	}
	h, err := in.header(data)
	if err != nil {
		return Image{}, err
	}
	if err := in.memory.Acquire(ctx, h.memory); err != nil {
		return Image{}, err
	}
	defer in.memory.Release(h.memory)
	ctx, cancel := context.WithTimeout(ctx, maxImageTime)
	defer cancel()
	img, err := in.rewrite(ctx, data[:h.size], h)
	if h.memory > collectAbove {
		debug.FreeOSMemory() // before the next one allocates as much: the collector would wait until the heap has doubled
	}
	return img, err
}

// collectAbove is how many bytes a picture takes after which waiting for the collector would cost more than asking it.
const collectAbove = 32 << 20

var notBase64 = ErrImage.Detailf("base64_image is the file in base64: standard alphabet, padded, without line " +
	"breaks or a data: prefix.")

// header is what the first bytes of a file say, before anything of its size is allocated.
type header struct {
	width, height int
	memory        int64 // bytes that decoding needs, at most
	png           bool
	orientation   int // of Exif, 1 to 8
	size          int // bytes of the file that are the picture
}

// header reads what a file says of itself, and refuses what is too large or too small.
func (in *ImageDecoder) header(data []byte) (header, error) {
	h, err := readHeader(data)
	switch {
	case err != nil:
		return h, err
	case h.width > maxImagePixels/max(h.height, 1):
		return h, ErrImage.Detailf("The image has more than 40 megapixels.")
	case min(h.width, h.height) < in.minSide:
		return h, ErrImage.Detailf("The image is too small to read: its shorter side has less than %d pixels.", in.minSide)
	case h.memory > maxImageMemory:
		return h, ErrImage.Detailf("The image takes too much memory to read. Send it with fewer pixels, or as a plain JPEG.")
	}
	return h, nil
}

// rewrite decodes an image and encodes its pixels. Whatever else the file held is gone: metadata, comments,
// thumbnails, and what followed the end.
func rewrite(ctx context.Context, data []byte, h header) (Image, error) {
	decode := jpeg.Decode
	if h.png {
		decode = png.Decode
	}
	img, err := decode(&until{ctx: ctx, from: bytes.NewReader(data)})
	if ctx.Err() != nil {
		return Image{}, ctx.Err()
	}
	if err != nil {
		return Image{}, ErrImage
	}
	if img = onWhite(img); h.orientation > 1 {
		img = turned{img, h.orientation}
	}
	size := img.Bounds().Size()
	for _, quality := range []int{90, 70} {
		var out bytes.Buffer
		if err := jpeg.Encode(&until{ctx: ctx, to: &out}, img, &jpeg.Options{Quality: quality}); err != nil {
			return Image{}, err
		}
		if out.Len() <= maxImageBytes {
			return Image{JPEG: out.Bytes(), Width: size.X, Height: size.Y}, nil
		}
	}
	return Image{}, ErrImage.Detailf("The image has too much detail to be stored in 10 MiB. Send it with fewer pixels.")
}

// until is what a decoder reads and an encoder writes, which know no context: it fails once ctx has ended.
type until struct {
	ctx  context.Context
	from io.Reader
	to   io.Writer
}

func (u *until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.from.Read(p[:min(len(p), 512)]) // little at a time: much work may be written in few bytes
}

func (u *until) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.to.Write(p)
}

func readHeader(data []byte) (header, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return pngHeader(data)
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return jpegHeader(data)
	}
	return header{}, ErrImage.Detailf("The file is not a JPEG or PNG.")
}

// pngHeader reads the chunks before the pixels: the first says the size, one that tells of an animation is refused.
func pngHeader(data []byte) (header, error) {
	h := header{png: true, size: len(data)}
	for at := 8; at+12 <= len(data); {
		length := binary.BigEndian.Uint32(data[at:])
		kind := string(data[at+4 : at+8])
		if length > uint32(len(data)-at-12) {
			return h, ErrImage
		}
		body := data[at+8 : at+8+int(length)]
		switch {
		case at == 8 && (kind != "IHDR" || length != 13):
			return h, ErrImage
		case at == 8:
			w, tall := binary.BigEndian.Uint32(body), binary.BigEndian.Uint32(body[4:])
			if w == 0 || tall == 0 || w > maxImagePixels || tall > maxImagePixels {
				return h, ErrImage.Detailf("The image has more than 40 megapixels.")
			}
			h.width, h.height = int(w), int(tall)
			perPixel := int64(4)
			if body[8] == 16 {
				perPixel = 8
			}
			if body[12] != 0 { // interlaced: the largest pass is decoded beside the whole
				perPixel += perPixel / 2
			}
			h.memory = perPixel * int64(h.width) * int64(h.height)
		case kind == "acTL":
			return h, ErrImage.Detailf("The image is animated. Send a single picture.")
		case kind == "IDAT":
			return h, nil
		}
		at += 12 + int(length)
	}
	return h, ErrImage
}

// jpegHeader reads the segments up to the one that says the size, and counts the scans behind it.
func jpegHeader(data []byte) (header, error) {
	h := header{orientation: 1}
	for at := 2; at+4 <= len(data); {
		if data[at] != 0xff {
			return h, ErrImage
		}
		marker := data[at+1]
		if marker == 0xff { // a fill byte
			at++
			continue
		}
		length := int(binary.BigEndian.Uint16(data[at+2:]))
		if length < 2 || at+2+length > len(data) {
			return h, ErrImage
		}
		body := data[at+4 : at+2+length]
		switch {
		case marker == 0xe1 && bytes.HasPrefix(body, []byte("Exif\x00\x00")):
			h.orientation = orientation(body[6:])
		case marker == 0xc0 || marker == 0xc1 || marker == 0xc2:
			if len(body) < 6 || len(body) < 6+3*int(body[5]) || body[5] != 1 && body[5] != 3 {
				return h, ErrImage.Detailf("The image is not in colours that can be read. Send it in RGB or grey.")
			}
			h.height, h.width = int(binary.BigEndian.Uint16(body[1:])), int(binary.BigEndian.Uint16(body[3:]))
			// A plane for each colour, at most as large as the whole, and all of them once more where they are converted.
			perPixel := int64(body[5])
			if body[5] == 3 {
				perPixel = samples(body)
			}
			if marker == 0xc2 { // progressive: the coefficients are kept, 4 bytes each
				perPixel *= 5
			}
			h.memory = perPixel * int64(h.width+16) * int64(h.height+16)
			if body[5] == 3 {
				h.memory += convertedRGB(data[:at], body) * int64(h.width) * int64(h.height)
			}
			h.size = at + jpegEnd(data[at:])
			// Counted as bytes, not as segments: a decoder that reads the segments otherwise than this walk finds no more
			// either.
			scans := bytes.Count(data[at:h.size], []byte{0xff, 0xda})
			if scans > maxScans || scans*h.width > maxScanPixels/max(h.height, 1) {
				return h, ErrImage.Detailf("The image is written in too many scans. Send it as a plain JPEG, not a " +
					"progressive one.")
			}
			return h, nil
		case marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc, marker == 0xda,
			marker == 0xd9:
			return h, ErrImage
		}
		at += 2 + length
	}
	return h, ErrImage
}

// jpegEnd is where the picture ends, whose segments begin here. Telephones leave other things behind it. One without
// an end is as long as the file: the decoder refuses it.
func jpegEnd(data []byte) int {
	for at := 0; at+4 <= len(data); {
		marker := data[at+1]
		switch {
		case data[at] != 0xff: // within a scan
			next := bytes.IndexByte(data[at:], 0xff)
			if next < 0 {
				return len(data)
			}
			at += next
		case marker == 0xff: // a fill byte
			at++
		case marker == 0 || marker >= 0xd0 && marker <= 0xd7: // within a scan
			at += 2
		case marker == 0xd9:
			return at + 2
		default:
			at += 2 + int(binary.BigEndian.Uint16(data[at+2:]))
		}
	}
	return len(data)
}

// samples is how many samples three planes have for a pixel, rounded up.
func samples(sof []byte) int64 {
	most, sum := int64(1), int64(0)
	for i := range 3 {
		each := int64(sof[7+3*i]>>4) * int64(sof[7+3*i]&15)
		most, sum = max(most, each), sum+each
	}
	return (sum + most - 1) / most
}

// convertedRGB is how many bytes for a pixel a decoder needs beside the planes, because they are red, green and blue.
func convertedRGB(before, sof []byte) int64 {
	if sof[6] == 'R' && sof[9] == 'G' && sof[12] == 'B' || bytes.Contains(before, []byte("Adobe")) {
		return 4
	}
	return 0
}

// orientation reads the one tag of Exif that changes what is seen, 1 when there is none.
func orientation(tiff []byte) int {
	if len(tiff) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	if tiff[0] == 'M' {
		order = binary.BigEndian
	}
	at := order.Uint32(tiff[4:])
	if at > uint32(len(tiff)-2) {
		return 1
	}
	entries := tiff[at:]
	n := int(order.Uint16(entries))
	for entries = entries[2:]; n > 0 && len(entries) >= 12; n, entries = n-1, entries[12:] {
		if order.Uint16(entries) == 0x0112 {
			if o := int(order.Uint16(entries[8:])); o >= 1 && o <= 8 {
				return o
			}
			return 1
		}
	}
	return 1
}

// turned shows an image as its Exif orientation says, without a second copy of it.
type turned struct {
	image.Image
	how int
}

func (t turned) Bounds() image.Rectangle {
	size := t.Image.Bounds().Size()
	if t.how >= 5 {
		size.X, size.Y = size.Y, size.X
	}
	return image.Rectangle{Max: size}
}

func (t turned) At(x, y int) color.Color {
	b := t.Image.Bounds()
	right, low := b.Dx()-1, b.Dy()-1
	switch t.how {
	case 2:
		x = right - x
	case 3:
		x, y = right-x, low-y
	case 4:
		y = low - y
	case 5:
		x, y = y, x
	case 6:
		x, y = y, low-x
	case 7:
		x, y = right-y, low-x
	case 8:
		x, y = right-y, x
	}
	return t.Image.At(b.Min.X+x, b.Min.Y+y)
}

// onWhite lays a transparent image on white, as paper is: a JPEG has no transparency, and the hidden colour below
// would show.
func onWhite(img image.Image) image.Image {
	switch m := img.(type) {
	case *image.NRGBA: // in its own memory: opaque pixels are the same in both forms
		for i := 0; i+3 < len(m.Pix); i += 4 {
			a := uint32(m.Pix[i+3])
			for j := range 3 {
				m.Pix[i+j] = uint8((uint32(m.Pix[i+j])*a + 255*(255-a)) / 255)
			}
			m.Pix[i+3] = 255
		}
		return &image.RGBA{Pix: m.Pix, Stride: m.Stride, Rect: m.Rect}
	case *image.Paletted:
		for i, c := range m.Palette {
			m.Palette[i] = paper(c)
		}
	case *image.NRGBA64:
		return overPaper{m}
	}
	return img
}

type overPaper struct{ image.Image }

func (o overPaper) At(x, y int) color.Color { return paper(o.Image.At(x, y)) }

// paper is a colour on white.
func paper(c color.Color) color.Color {
	r, g, b, a := c.RGBA()
	left := 0xffff - a
	return color.RGBA64{R: uint16(r + left), G: uint16(g + left), B: uint16(b + left), A: 0xffff}
}
