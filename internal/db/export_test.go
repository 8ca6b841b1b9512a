package db

// Queued returns the number of writes that wait for a committer.
func (d *DB) Queued() int { return len(d.queue) }
