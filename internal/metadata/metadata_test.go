package metadata

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/apierr"
)

func TestMetadataHasAtMost50Keys(t *testing.T) {
	all := map[string]string{strings.Repeat("k", maxKey): strings.Repeat("v", maxValue)}
	for i := range 49 {
		all["key_"+strconv.Itoa(i)] = ""
	}
	for _, want := range []int{0, 1} {
		var list apierr.List
		if Check(&list, "/metadata", all); len(list.Fields()) != want {
			t.Errorf("%d keys: %v", len(all), list.Fields())
		}
		all["one_more"] = ""
	}
}
