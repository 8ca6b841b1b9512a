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

// Errors of images.
var (
	ErrImage    = apierr.New(apierr.Invalid, "unsupported_image", "The image cannot be read. Send a complete JPEG or PNG.")
	ErrTooLarge = apierr.New(apierr.TooLarge, "payload_too_large",
		"The image is larger than 10 MiB. Send it with fewer pixels or more compression.")
)

// Limits of an image. There is no minimum size in bytes, because a sharp black-and-white scan may be small.
const (
	maxImageBytes  = 10 << 20
	maxImagePixels = 40_000_000
	maxImageMemory = 200 << 20 // bytes that all decoders together may allocate

	// Decoding a progressive JPEG takes one pass over all pixels per scan, and a scan may be only a few bytes long.
	// Without a limit, decoding a file of 10 MiB could take hours. Common encoders write about ten scans, some up to a
	// few dozen.
	maxScans = 64
	// maxScanPixels is the maximum of scans × pixels. It permits an image of the maximum size twice the usual number of
	// scans.
	maxScanPixels = 20 * maxImagePixels

	// maxImageTime is the time after which decoding is aborted. The largest images take a few seconds.
	maxImageTime = 30 * time.Second
)

// Image is a decoded and re-encoded image: an upright JPEG that contains only pixels.
type Image struct {
	JPEG          []byte
	Width, Height int
}

// MinPixels is the minimum length in pixels of the shorter side of a document, so that it is legible.
const MinPixels = 600

// ImageDecoder decodes untrusted images. It limits the number of images that are decoded at the same time, and their
// total memory to maxImageMemory. A waiting image uses no memory besides the text of its request.
type ImageDecoder struct {
	slots   chan struct{}
	memory  *semaphore.Weighted
	minSide int
	rewrite func(context.Context, []byte, header) (Image, error) // decodes and encodes an image; tests replace it
}

// NewImageDecoder returns a decoder that decodes at most atOnce images at the same time. It rejects images with a
// side shorter than minSide pixels, which is usually [MinPixels].
func NewImageDecoder(atOnce, minSide int) *ImageDecoder {
	return &ImageDecoder{make(chan struct{}, atOnce), semaphore.NewWeighted(maxImageMemory), minSide, rewrite}
}

// Read decodes an image in base64 (standard alphabet, padded, without line breaks or a data: prefix) and encodes it
// again. It returns ErrTooLarge for more than 10 MiB, and ErrImage unless the file is a single, complete JPEG or PNG
// within the limits. Read returns early when ctx is done, whether it waits or decodes.
func (in *ImageDecoder) Read(ctx context.Context, text string) (img Image, err error) {
	err = in.decode(ctx, text, maxImageBytes, ErrTooLarge, in.header,
		func(ctx context.Context, data []byte, h header) error {
			img, err = in.rewrite(ctx, data, h)
			return err
		})
	return img, err
}

// decode decodes the base64 text of an image, checks the image's header, waits until the memory for decoding is
// available, and calls fn with the file up to the end of the image. It returns tooLarge for a file of more than
// maxBytes.
func (in *ImageDecoder) decode(ctx context.Context, text string, maxBytes int, tooLarge error,
	check func([]byte) (header, error), fn func(context.Context, []byte, header) error) error {
	if base64.StdEncoding.DecodedLen(len(text)) > maxBytes+2 {
		return tooLarge
	}
	// Even the strict base64 decoder ignores line breaks.
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return notBase64
	}
	select {
	case in.slots <- struct{}{}:
		defer func() { <-in.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	switch {
	case err != nil:
		return notBase64
	case len(data) > maxBytes:
		return tooLarge
	}
	h, err := check(data)
	if err != nil {
		return err
	}
	if err := in.memory.Acquire(ctx, h.memory); err != nil {
		return err
	}
	defer in.memory.Release(h.memory)
	ctx, cancel := context.WithTimeout(ctx, maxImageTime)
	defer cancel()
	err = fn(ctx, data[:h.size], h)
	if h.memory > collectAbove {
		debug.FreeOSMemory() // otherwise the collector would wait until the heap has doubled
	}
	return err
}

// maxJPEGSide is the longest side, in pixels, that a JPEG can have. Images are encoded as JPEG.
const maxJPEGSide = 65535

// collectAbove is a threshold in bytes. An image that may need more memory than this forces a garbage collection.
const collectAbove = 32 << 20

var notBase64 = ErrImage.Detailf("The value must be the file in base64: standard alphabet, padded, without line " +
	"breaks or a data: prefix.")

// header contains the properties of an image file, which are read before memory for its pixels is allocated.
type header struct {
	width, height int
	memory        int64 // upper bound of the bytes that decoding allocates
	png           bool
	orientation   int // Exif orientation, 1 to 8
	size          int // bytes of the file up to the end of the image
}

// header returns the header of a file. It returns ErrImage if the image exceeds a limit.
func (in *ImageDecoder) header(data []byte) (header, error) {
	h, err := readHeader(data)
	switch {
	case err != nil:
		return h, err
	case h.width > maxImagePixels/max(h.height, 1), max(h.width, h.height) > maxJPEGSide:
		return h, errPixels
	case min(h.width, h.height) < in.minSide:
		return h, ErrImage.Detailf("The image is too small: its shorter side has less than %d pixels. Send a larger one.",
			in.minSide)
	case h.memory > maxImageMemory:
		return h, ErrImage.Detailf("Reading the image takes too much memory. Send it with fewer pixels, or as a plain JPEG.")
	}
	return h, nil
}

var errPixels = ErrImage.Detailf("The image has more than 40 megapixels. Send it with fewer pixels.")

// rewrite decodes an image and encodes only its pixels, which removes metadata, comments, thumbnails and bytes after
// the image.
func rewrite(ctx context.Context, data []byte, h header) (Image, error) {
	decode := jpeg.Decode
	if h.png {
		decode = png.Decode
	}
	img, err := decode(&contextStream{ctx: ctx, from: bytes.NewReader(data)})
	if ctx.Err() != nil {
		return Image{}, ctx.Err()
	}
	if err != nil {
		return Image{}, ErrImage
	}
	if img = onWhite(img); h.orientation > 1 {
		img = oriented{img, h.orientation}
	}
	// Try the higher JPEG quality first. The lower quality is for detailed images that would otherwise exceed
	// maxImageBytes.
	size := img.Bounds().Size()
	for _, quality := range []int{90, 70} {
		var out bytes.Buffer
		if err := jpeg.Encode(&contextStream{ctx: ctx, to: &out}, img, &jpeg.Options{Quality: quality}); err != nil {
			return Image{}, err
		}
		if out.Len() <= maxImageBytes {
			return Image{JPEG: out.Bytes(), Width: size.X, Height: size.Y}, nil
		}
	}
	return Image{}, ErrImage.Detailf("The image has too much detail for 10 MiB. Send it with fewer pixels.")
}

// contextStream is a reader for a decoder, or a writer for an encoder, that fails once ctx is done.
type contextStream struct {
	ctx  context.Context
	from io.Reader
	to   io.Writer
}

func (u *contextStream) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.from.Read(p[:min(len(p), 512)]) // reads are small, because a few bytes may cause much work
}

func (u *contextStream) Write(p []byte) (int, error) {
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

// pngHeader parses the chunks before the pixels. It rejects animations.
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
				return h, errPixels
			}
			h.width, h.height = int(w), int(tall)
			perPixel := int64(4)
			if body[8] == 16 {
				perPixel = 8
			}
			if body[12] != 0 { // interlaced: the largest pass is decoded into separate memory
				perPixel += perPixel / 2
			}
			h.memory = perPixel * int64(h.width) * int64(h.height)
		case kind == "acTL":
			return h, ErrImage.Detailf("The image is animated. Send a still image.")
		case kind == "IDAT":
			return h, nil
		}
		at += 12 + int(length)
	}
	return h, ErrImage
}

// jpegHeader parses the segments up to the frame header, which contains the size, and counts the scans after it.
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
				return h, ErrImage.Detailf("The color space of the image is not supported. Send it in RGB or grayscale.")
			}
			h.height, h.width = int(binary.BigEndian.Uint16(body[1:])), int(binary.BigEndian.Uint16(body[3:]))
			// The decoder allocates one plane per component, and also an RGB image if it converts the components.
			perPixel := int64(body[5])
			if body[5] == 3 {
				perPixel = samples(body)
			}
			if marker == 0xc2 { // progressive: the decoder also stores the coefficients, 4 bytes each
				perPixel *= 5
			}
			h.memory = perPixel * int64(h.width+16) * int64(h.height+16)
			if body[5] == 3 {
				h.memory += convertedRGB(data[:at], body) * int64(h.width) * int64(h.height)
			}
			h.size = at + jpegEnd(data[at:])
			// The number of marker bytes is an upper bound of the number of scans for any decoder; counting parsed segments is
			// not.
			scans := bytes.Count(data[at:h.size], []byte{0xff, 0xda})
			if scans > maxScans || scans*h.width > maxScanPixels/max(h.height, 1) {
				return h, ErrImage.Detailf("The JPEG has too many scans. Send it as a baseline JPEG, not a progressive one.")
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

// jpegEnd returns the offset of the end of the image in data, which starts at a segment. Phones append other data
// after the image. If there is no end marker, jpegEnd returns len(data), and decoding fails later.
func jpegEnd(data []byte) int {
	for at := 0; at+4 <= len(data); {
		marker := data[at+1]
		switch {
		case data[at] != 0xff: // entropy-coded data, not a marker
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

// samples returns the number of samples per pixel of a JPEG with three, possibly subsampled, components, rounded up.
// sof is the frame header.
func samples(sof []byte) int64 {
	most, sum := int64(1), int64(0)
	for i := range 3 {
		each := int64(sof[7+3*i]>>4) * int64(sof[7+3*i]&15)
		most, sum = max(most, each), sum+each
	}
	return (sum + most - 1) / most
}

// convertedRGB returns the number of bytes per pixel that the decoder allocates to convert RGB components.
func convertedRGB(before, sof []byte) int64 {
	if sof[6] == 'R' && sof[9] == 'G' && sof[12] == 'B' || bytes.Contains(before, []byte("Adobe")) {
		return 4
	}
	return 0
}

// orientation returns the value of the Exif orientation tag, or 1 if there is none.
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

// oriented is a view of an image that applies an Exif orientation without copying the pixels.
type oriented struct {
	image.Image
	orientation int
}

func (t oriented) Bounds() image.Rectangle {
	size := t.Image.Bounds().Size()
	if t.orientation >= 5 {
		size.X, size.Y = size.Y, size.X
	}
	return image.Rectangle{Max: size}
}

func (t oriented) At(x, y int) color.Color {
	b := t.Image.Bounds()
	right, low := b.Dx()-1, b.Dy()-1
	switch t.orientation {
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

// onWhite returns an image on a white background. It is necessary because a JPEG has no transparency and would show
// the color values of transparent pixels.
func onWhite(img image.Image) image.Image {
	switch m := img.(type) {
	case *image.NRGBA: // changed in place, because opaque pixels are the same in NRGBA and RGBA
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
			m.Palette[i] = onWhitePixel(c)
		}
	case *image.NRGBA64:
		return whiteBackground{m}
	}
	return img
}

// whiteBackground is a view of an image on a white background.
type whiteBackground struct{ image.Image }

func (o whiteBackground) At(x, y int) color.Color { return onWhitePixel(o.Image.At(x, y)) }

// onWhitePixel returns a color blended with white.
func onWhitePixel(c color.Color) color.Color {
	r, g, b, a := c.RGBA()
	left := 0xffff - a
	return color.RGBA64{R: uint16(r + left), G: uint16(g + left), B: uint16(b + left), A: 0xffff}
}
