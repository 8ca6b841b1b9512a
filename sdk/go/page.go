package stipend

import "iter"

// eachPage iterates over a list of numbered pages.
func eachPage[Item any](start int64, fetch func(page int64) ([]Item, Meta, error)) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for page := max(start, 1); ; page++ {
			items, meta, err := fetch(page)
			if err != nil {
				yield(*new(Item), err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if !meta.HasNext {
				return
			}
		}
	}
}

// eachAfter iterates over a list with cursors.
func eachAfter[Item any](
	start string, fetch func(after string) (items []Item, next string, more bool, err error),
) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for after := start; ; {
			items, next, more, err := fetch(after)
			if err != nil {
				yield(*new(Item), err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if !more || next == after {
				return
			}
			after = next
		}
	}
}
