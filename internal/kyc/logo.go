package kyc

import (
	"bytes"
	"context"
	"encoding/binary"
	"image"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"
)

// Limits of a logo.
const (
	MaxLogoBytes  = 1 << 20
	maxLogoPixels = 2048 * 2048
	minLogoSide   = 32
	logoSide      = 256      // longest side in pixels of the stored logo
	logoBytes     = 16 << 10 // the stored logo is scaled down further until it is no larger
)

var errLogoTooLarge = ErrTooLarge.Detailf("The logo is larger than 1 MiB. Send a smaller file.")

// ReadLogo decodes a PNG, JPEG or WebP in base64 and returns it as a PNG of at most 256 pixels on its longer side and
// 16 KiB, with only pixels. It returns ErrTooLarge for more than 1 MiB, and ErrImage unless the file is a complete
// still image of at most 4 megapixels. An image whose header exceeds the limits is not decoded.
func (in *ImageDecoder) ReadLogo(ctx context.Context, text string) (logo []byte, err error) {
	err = in.decode(ctx, text, MaxLogoBytes, errLogoTooLarge, logoHeader,
		func(ctx context.Context, data []byte, h header) error {
			logo, err = rewriteLogo(ctx, data, h)
			return err
		})
	return logo, err
}

func logoHeader(data []byte) (header, error) {
	read := readHeader
	if isWebP(data) {
		read = webpHeader
	}
	h, err := read(data)
	switch {
	case err != nil:
		return h, err
	case h.width > maxLogoPixels/max(h.height, 1):
		return h, ErrImage.Detailf("The logo has more than 2048 × 2048 pixels. Send a smaller one.")
	case min(h.width, h.height) < minLogoSide:
		return h, ErrImage.Detailf("The logo is too small: each side must have at least %d pixels.", minLogoSide)
	}
	h.memory = min(h.memory, maxImageMemory)
	return h, nil
}

// rewriteLogo decodes a logo, scales it down and encodes only its pixels.
func rewriteLogo(ctx context.Context, data []byte, h header) ([]byte, error) {
	decode := jpeg.Decode
	switch {
	case h.png:
		decode = png.Decode
	case isWebP(data):
		decode = webp.Decode
	}
	img, err := decode(&contextStream{ctx: ctx, from: bytes.NewReader(data)})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, ErrImage.Detailf("The image cannot be read. Send a complete PNG, JPEG or WebP.")
	}
	if h.orientation > 1 {
		img = oriented{img, h.orientation}
	}
	for side := logoSide; ; side = side * 3 / 4 {
		size := img.Bounds().Size()
		if longest := max(size.X, size.Y); longest > side {
			size.X, size.Y = max(1, size.X*side/longest), max(1, size.Y*side/longest)
		}
		small := image.NewNRGBA(image.Rectangle{Max: size})
		draw.CatmullRom.Scale(small, small.Bounds(), img, img.Bounds(), draw.Src, nil)
		var out bytes.Buffer
		encoder := png.Encoder{CompressionLevel: png.BestCompression}
		if err := encoder.Encode(&contextStream{ctx: ctx, to: &out}, small); err != nil {
			return nil, err
		}
		if out.Len() <= logoBytes {
			return out.Bytes(), nil
		}
	}
}

func isWebP(data []byte) bool {
	return len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP"
}

// webpHeader parses the chunks before the pixels. It returns the largest size that any chunk states, because the
// decoder allocates memory for each. It rejects animations.
func webpHeader(data []byte) (header, error) {
	h := header{orientation: 1, size: len(data), memory: maxImageMemory} // lossless: tables for up to 65,536 codes
	lossy := true
	for at := 12; at+8 <= len(data); {
		length := int64(binary.LittleEndian.Uint32(data[at+4:]))
		if length > int64(len(data)-at-8) {
			return h, ErrImage
		}
		body := data[at+8 : at+8+int(length)]
		switch kind := string(data[at : at+4]); {
		case kind == "VP8X" && len(body) == 10 && body[0]&2 != 0:
			return h, ErrImage.Detailf("The image is animated. Send a still image.")
		case kind == "VP8X" && len(body) == 10:
			h.width = 1 + int(body[4]) + int(body[5])<<8 + int(body[6])<<16
			h.height = 1 + int(body[7]) + int(body[8])<<8 + int(body[9])<<16
		case kind == "VP8X":
			return h, ErrImage
		case kind == "ALPH": // losslessly compressed transparency
			lossy = false
		case kind == "VP8L" && len(body) > 5:
			bits := binary.LittleEndian.Uint32(body[1:])
			h.width, h.height = max(h.width, 1+int(bits&0x3fff)), max(h.height, 1+int(bits>>14&0x3fff))
			return h, nil
		case kind == "VP8 " && len(body) > 10:
			h.width = max(h.width, int(binary.LittleEndian.Uint16(body[6:])&0x3fff))
			h.height = max(h.height, int(binary.LittleEndian.Uint16(body[8:])&0x3fff))
			if lossy {
				h.memory = 4 * int64(h.width+16) * int64(h.height+16)
			}
			return h, nil
		}
		at += 8 + int(length+length&1)
	}
	return h, ErrImage
}
