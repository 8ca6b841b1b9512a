package replica

import (
	"context"
	"io"
	"sync"

	"github.com/benbjohnson/litestream"
	"github.com/superfly/ltx"
)

// measured is a client that reports how many bytes have been read, of the total size of the opened files. It learns a
// file's size when the file is listed.
type measured struct {
	litestream.ReplicaClient
	progress func(done, total int64)

	mu          sync.Mutex
	sizes       map[span]int64
	done, total int64
}

// span identifies a file of the replica by its level and its range of transactions.
type span struct {
	level    int
	min, max ltx.TXID
}

// LTXFiles lists the files of a level.
func (m *measured) LTXFiles(ctx context.Context, level int, seek ltx.TXID, exact bool) (ltx.FileIterator, error) {
	files, err := m.ReplicaClient.LTXFiles(ctx, level, seek, exact)
	if err != nil {
		return nil, err
	}
	return &measuredFiles{files, m}, nil
}

// OpenLTXFile opens a file, or a part of it.
func (m *measured) OpenLTXFile(ctx context.Context, level int, first, last ltx.TXID, offset, size int64) (io.ReadCloser,
	error) {
	f, err := m.ReplicaClient.OpenLTXFile(ctx, level, first, last, offset, size)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if offset == 0 && size == 0 { // a part continues a file that is already counted
		m.total += m.sizes[span{level, first, last}]
	}
	return &measuredFile{f, m}, nil
}

type measuredFiles struct {
	ltx.FileIterator
	m *measured
}

// Item returns the file at which the iterator is.
func (f *measuredFiles) Item() *ltx.FileInfo {
	info := f.FileIterator.Item()
	if info != nil {
		f.m.mu.Lock()
		f.m.sizes[span{info.Level, info.MinTXID, info.MaxTXID}] = info.Size
		f.m.mu.Unlock()
	}
	return info
}

type measuredFile struct {
	io.ReadCloser
	m *measured
}

// Read reads from the file and reports the progress.
func (f *measuredFile) Read(b []byte) (int, error) {
	n, err := f.ReadCloser.Read(b)
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.m.done += int64(n)
	f.m.progress(f.m.done, f.m.total)
	return n, err
}
