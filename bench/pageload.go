package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/web/webtest"
)

// The properties of the slow phone that common tools for page speed simulate: a processor four times slower, 1.6
// Mbit/s download, and a round trip of 150 ms.
const (
	phoneSlower  = 4
	phoneLatency = 150 // ms
	phoneDown    = 1_600_000 / 8
	phoneUp      = 750_000 / 8
	phoneWidth   = 360
	pageLoads    = 7
)

// emulateNetwork is a command that every version of Chromium supports. The parameters of the command that replaces it
// vary between versions.
var emulateNetwork = cdp.Command[networkConditions, cdp.Empty]{Method: "Network.emulateNetworkConditions"}

type networkConditions struct {
	Offline bool    `json:"offline"`
	Latency float64 `json:"latency"`            // ms
	Down    float64 `json:"downloadThroughput"` // bytes a second
	Up      float64 `json:"uploadThroughput"`
}

// pageLoad is the result of loading a page.
type pageLoad struct {
	first time.Duration // time until the first content is shown
	bytes int64         // size of the page with all its files
}

// loadPage loads a page several times on a simulated slow phone, each time in a browser with an empty cache.
func loadPage(ctx context.Context, address string) (pageLoad, error) {
	var all []time.Duration
	var size int64
	for range pageLoads {
		first, n, err := loadPageOnce(ctx, address)
		if err != nil {
			return pageLoad{}, err
		}
		all, size = append(all, first), n
	}
	slices.Sort(all)
	return pageLoad{all[len(all)/2], size}, nil
}

func loadPageOnce(ctx context.Context, address string) (time.Duration, int64, error) {
	program, err := webtest.Program()
	if err != nil {
		return 0, 0, err
	}
	profile, err := os.MkdirTemp("", "stipend-bench-browser-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(profile)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ctx, stop := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.UserDataDir(profile), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.Flag("no-proxy-server", true))...)
	defer stop()
	ctx, end := chromedp.NewContext(ctx)
	defer end()
	defer func() { _ = chromedp.Cancel(ctx) }() // the profile must not be deleted while the browser uses it
	var received float64
	if err := chromedp.Listen(ctx, func(ev any) {
		if ev, ok := ev.(*network.EventLoadingFinished); ok {
			received += ev.EncodedDataLength
		}
	}); err != nil {
		return 0, 0, err
	}
	slow := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
		if err == nil {
			_, err = cdp.Call(ctx, t, emulateNetwork, networkConditions{Latency: phoneLatency, Down: phoneDown, Up: phoneUp})
		}
		if err == nil {
			_, err = cdp.Call(ctx, t, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: phoneSlower})
		}
		return err
	})
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(phoneWidth, 740), slow, chromedp.Navigate(address)); err != nil {
		return 0, 0, fmt.Errorf("load %s: %w", address, err)
	}
	ms, err := chromedp.Run(ctx, chromedp.Evaluate[float64](
		`new Promise(done => new PerformanceObserver(l =>
			l.getEntriesByName("first-contentful-paint").forEach(e => done(e.startTime))
		).observe({type: "paint", buffered: true}))`,
		chromedp.EvalAwaitPromise))
	if err != nil {
		return 0, 0, err
	}
	if ms <= 0 {
		return 0, 0, errors.New("the browser painted nothing")
	}
	return time.Duration(ms * float64(time.Millisecond)), int64(received), nil
}
