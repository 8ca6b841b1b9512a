package db

import "time"

// Stats describes the connections of a database handle at one time.
type Stats struct {
	InUse, Idle, Max int
	Waits            int64         // how many acquisitions had to wait for a connection since the start
	Waited           time.Duration // total duration of these waits
	Writing          int           // calls of Write that have not returned
}

// Stats returns the state of this handle's connections. On SQLite it describes the connections for reading, and does
// not count waits.
func (d *DB) Stats() Stats {
	s := Stats{Writing: int(d.pending.Load())}
	if d.engine == SQLite {
		s.Max = maxReaders
		s.InUse = maxReaders - len(d.readers.free)
		d.readers.mu.Lock()
		s.Idle = len(d.readers.idle)
		d.readers.mu.Unlock()
		return s
	}
	p := d.pool.Stat()
	s.InUse, s.Idle, s.Max = int(p.AcquiredConns()), int(p.IdleConns()), int(p.MaxConns())
	s.Waits, s.Waited = p.EmptyAcquireCount(), p.EmptyAcquireWaitTime()
	return s
}
