package chain

// Doubts are those of some addresses that the watcher looks for in the database though nothing was given out since it learned.
func (w *Watcher) Doubts(addresses ...string) []string {
	maybe, _ := w.ours.parts(addresses)
	return maybe
}
