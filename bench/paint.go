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

// The slow phone of the field's page testers: a processor four times slower, 1.6 Mbit/s down, 150 ms for each way and
// back.
const (
	phoneSlower  = 4
	phoneLatency = 150 // ms
	phoneDown    = 1_600_000 / 8
	phoneUp      = 750_000 / 8
	phoneWidth   = 360
	paints       = 7
)

// slowLine is the command of the protocol that every Chromium knows; its successor takes other parameters from version
// to version.
var slowLine = cdp.Command[lineConditions, cdp.Empty]{Method: "Network.emulateNetworkConditions"}

type lineConditions struct {
	Offline bool    `json:"offline"`
	Latency float64 `json:"latency"`            // ms
	Down    float64 `json:"downloadThroughput"` // bytes a second
	Up      float64 `json:"uploadThroughput"`
}

// painted is what a phone's user waits for.
type painted struct {
	first time.Duration // from the tap to the first content, median
	bytes int64         // with all files
}

// paint loads a page on a slow phone, each time in a browser that knows nothing of it, as a payer's does.
func paint(ctx context.Context, address string) (painted, error) {
	var all []time.Duration
	var size int64
	for range paints {
		first, n, err := paintOnce(ctx, address)
		if err != nil {
			return painted{}, err
		}
		all, size = append(all, first), n
	}
	slices.Sort(all)
	return painted{all[len(all)/2], size}, nil
}

func paintOnce(ctx context.Context, address string) (time.Duration, int64, error) {
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
		chromedp.ExecPath(program), chromedp.UserDataDir(profile), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Flag("no-proxy-server", true))...)
	defer stop()
	ctx, end := chromedp.NewContext(ctx)
	defer end()
	defer func() { _ = chromedp.Cancel(ctx) }() // so that the profile is not deleted under a running browser
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
			_, err = cdp.Call(ctx, t, slowLine, lineConditions{Latency: phoneLatency, Down: phoneDown, Up: phoneUp})
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
		`new Promise(done => new PerformanceObserver(l => l.getEntriesByName("first-contentful-paint").forEach(e => done(e.startTime))).observe({type: "paint", buffered: true}))`,
		chromedp.EvalAwaitPromise))
	if err != nil {
		return 0, 0, err
	}
	if ms <= 0 {
		return 0, 0, errors.New("the browser painted nothing")
	}
	return time.Duration(ms * float64(time.Millisecond)), int64(received), nil
}
