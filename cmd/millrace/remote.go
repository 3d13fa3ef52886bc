package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Remote says which server a command talks to. Beside a local `millrace up` nothing needs to be said: it leaves its
// address and token in its data folder, readable by its owner only.
type Remote struct {
	Server string `env:"MILLRACE_SERVER" placeholder:"URL" help:"The server. Default: the one that runs here over --data."`
	Token  string `env:"MILLRACE_TOKEN" placeholder:"TOKEN" help:"Bearer token for it."`
	Data   string `env:"MILLRACE_DATA" default:"./millrace-data" help:"Data folder of a local millrace up."`
}

// clientFile is where a local server leaves its address and token.
const clientFile = "client.json"

type clientAddress struct {
	Server   string `json:"server"`
	Token    string `json:"token"`
	Postgres string `json:"postgres"`
	Topic    string `json:"topic"`
	// What commands need that look at the log and the files themselves.
	Kafka   []string `json:"kafka"`
	Objects string   `json:"objects"`
}

// resolve fills in what was not said from the local server's file.
func (r Remote) resolve() (clientAddress, error) {
	if r.Server != "" {
		return clientAddress{Server: strings.TrimRight(r.Server, "/"), Token: r.Token}, nil
	}
	local, err := localAddress(r.Data)
	if err != nil {
		return local, err
	}
	if local.Server == "" {
		return local, usagef("no server: start one with `millrace up`, or say --server URL --token TOKEN")
	}
	if r.Token != "" {
		local.Token = r.Token
	}
	return local, nil
}

// localPlaces is localAddress for commands that look at the places themselves: an error says what to start or to say.
func localPlaces(data, flags string) (clientAddress, error) {
	local, err := localAddress(data)
	if err == nil && local.Postgres == "" {
		err = usagef("no millrace up has run over %s: start one, or say %s", data, flags)
	}
	return local, err
}

// localAddress reads what the `millrace up` that was started last over the data folder, or its demo, left there.
func localAddress(data string) (clientAddress, error) {
	newest, found := time.Time{}, clientAddress{}
	for _, dir := range []string{filepath.Join(data, demoFolder), data} {
		path := filepath.Join(dir, clientFile)
		info, err := os.Stat(path)
		if err != nil || !info.ModTime().After(newest) {
			continue
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return found, fmt.Errorf("reading the local server's address: %w", err)
		}
		found = clientAddress{}
		if err := json.Unmarshal(body, &found); err != nil {
			return found, fmt.Errorf("%s: %w", path, err)
		}
		newest = info.ModTime()
	}
	return found, nil
}

// apiError is what the server answered instead of a result.
type apiError struct {
	Status  int
	Code    string `json:"error"`
	Message string `json:"message"`
	OFREP   string `json:"errorDetails"` // the message, where OpenFeature's protocol is spoken
}

func (e *apiError) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// open sends a request and gives the answer's body, which the caller closes.
func (r Remote) open(ctx context.Context, method, path string, body any, header http.Header) (*http.Response, error) {
	to, err := r.resolve()
	if err != nil {
		return nil, err
	}
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, to.Server+path, reader)
	if err != nil {
		return nil, usagef("--server %s: %v", to.Server, err)
	}
	maps.Copy(req.Header, header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+to.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w; is it running?", to.Server, errors.Unwrap(err))
	}
	if res.StatusCode >= 400 {
		defer res.Body.Close()
		return nil, readError(res)
	}
	return res, nil
}

func readError(res *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	e := &apiError{Status: res.StatusCode}
	_ = json.Unmarshal(body, e) // what is no JSON is shown as it is
	if e.Message == "" {
		e.Message = e.OFREP
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("%s: %s", res.Status, strings.TrimSpace(string(body)))
	}
	if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
		e.Message += " (say --token, or MILLRACE_TOKEN; `millrace token create` makes one)"
	}
	return e
}

// call sends a request and reads the JSON answer into result.
func (r Remote) call(ctx context.Context, method, path string, body, result any) error {
	res, err := r.open(ctx, method, path, body, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if result == nil {
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(result); err != nil {
		return fmt.Errorf("%s %s: the answer is not what was expected: %w", method, path, err)
	}
	return nil
}
