package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// entry is a file or directory in an archive.
type entry struct {
	name string
	mode fs.FileMode
	data []byte
	uid  int
}

func walkFiles(root fs.FS, visit func(name string)) error {
	return fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			visit(name)
		}
		return err
	})
}

// archive writes the archive for a platform: a .zip file for Windows, a .tar.gz file for other platforms. All files
// are in a directory that is named after the release.
func (r Release) archive(b binary) error {
	docs, err := r.documents()
	if err != nil {
		return err
	}
	top := "stipend_" + r.plain() + "_" + b.String()
	var entries []entry
	for _, d := range docs {
		data, err := os.ReadFile(filepath.Join(r.Source, d.source))
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(d.name, ".sh") {
			mode = 0o755
		}
		entries = append(entries, entry{name: path.Join(top, d.name), mode: mode, data: data})
	}
	data, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	entries = append(entries, entry{name: path.Join(top, filepath.Base(b.path)), mode: 0o755, data: data})
	name, write := r.name(b.String()+".tar.gz"), writeTarGz
	if b.OS == "windows" {
		name, write = r.name(b.String()+".zip"), writeZip
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f, entries, r.Time); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func writeTarGz(w io.Writer, entries []entry, at time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(z, entries, at); err != nil {
		return err
	}
	return z.Close()
}

// writeTar writes entries as a tar file. An entry whose name ends with a slash is a directory.
func writeTar(w io.Writer, entries []entry, at time.Time) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: int64(e.mode), Size: int64(len(e.data)), ModTime: at,
			Uid: e.uid, Gid: e.uid, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(e.data); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeZip(w io.Writer, entries []entry, at time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(e.mode)
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.data); err != nil {
			return err
		}
	}
	return z.Close()
}
