package db

import "slices"

// RunLength is how many ids one run has.
const RunLength = len(runPlaces)

const runPlaces = "0123456789abcdef"

// NewIDs makes ids for things that are made together, in the order in which they sort. They come in runs: those of one run differ in their last
// character only, so that something can be said of them at once under the name of the run, [RunOf].
func (t *Tx) NewIDs(prefix string, n int) []string {
	runs := make([]string, (n+RunLength-1)/RunLength)
	for i := range runs {
		runs[i] = RunOf(t.NewID(prefix))
	}
	slices.Sort(runs)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = RunID(runs[i/RunLength], i%RunLength)
	}
	return ids
}

// RunID is the id of a run with a place in it.
func RunID(run string, place int) string { return run + runPlaces[place:place+1] }

// RunOf is the run that an id would be of.
func RunOf(id string) string {
	if id == "" {
		return ""
	}
	return id[:len(id)-1]
}
