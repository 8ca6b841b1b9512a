package main

import (
	"os"
	"path/filepath"

	"github.com/stipend/stipend/internal/httpapi"
)

// writeSDKs writes the generated files of all SDKs, whose names end in _gen before the extension, and the
// documentation page with their methods.
func writeSDKs() error {
	m, err := readModel(httpapi.Document())
	if err != nil {
		return err
	}
	for dir, generate := range map[string]func(*model) (map[string]string, error){
		"sdk/go": goSDK, "sdk/typescript/src": typeScriptSDK, "sdk/python/stipend": pythonSDK,
	} {
		files, err := generate(m)
		if err != nil {
			return err
		}
		for name, text := range files {
			//nolint:gosec // a file of the repository
			if err := os.WriteFile(filepath.Join(filepath.FromSlash(dir), name), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	//nolint:gosec // a file of the repository
	return os.WriteFile(filepath.FromSlash(methodsFile), []byte(methodsPage(m)), 0o644)
}
