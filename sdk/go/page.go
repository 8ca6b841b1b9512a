package stipend

import "iter"

// eachAfter iterates over a list page by page. after is the cursor of the page before, "" for the first page.
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
