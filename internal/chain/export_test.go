package chain

// MaybeOwn returns the addresses that the cache does not rule out.
func (w *Watcher) MaybeOwn(addresses ...string) []string {
	maybe, _ := w.addresses.split(addresses)
	return maybe
}
