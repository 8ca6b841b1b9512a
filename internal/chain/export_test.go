package chain

// MaybeOwn are those of some addresses that the watcher looks for in the database though nothing was given out since it learned.
func (w *Watcher) MaybeOwn(addresses ...string) []string {
	maybe, _ := w.addresses.split(addresses)
	return maybe
}
