package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"millrace/schemas/event"
)

// Endpoint is a model behind an OpenAI-compatible API, and how it is asked.
type Endpoint struct {
	URL         string        // of the API, up to and including /v1
	Model       string        // as the API calls it
	Key         string        // bearer token; "": none
	Votes       int           // calls for each exchange, 1 to 9; an odd number leaves fewer ties. Default 3
	Temperature float64       // 0 to 2
	MaxTokens   int           // of one answer, a model's thinking included. Default 512
	Characters  int           // of both requests' texts together; longer ones lose their middle. Default 8,000
	VoteTimeout time.Duration // of one call. Default 10 s
	Deadline    time.Duration // of one exchange, repeats included. Default 30 s
	Calls       int           // at once. Default 6

	pause time.Duration // before the first repeat of a call; doubles
}

const (
	mostVotes    = 9
	mostAttempts = 3 // at one vote
	answerLimit  = 1 << 20
)

// Validate fills in defaults and says what is wrong.
func (e *Endpoint) Validate() error {
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return errors.New("the judge's URL is none: give the API's, as in http://127.0.0.1:8000/v1")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("the judge's URL, of host %s, must have no user, query or fragment; the key is given by itself", u.Host)
	case e.Model == "":
		return errors.New("the judge has no model; name one as its API calls it")
	case len(e.Model) > event.MaxIDBytes-20 || !utf8.ValidString(e.Model) || strings.ContainsFunc(e.Model, unicode.IsControl):
		return fmt.Errorf("the judge's model %.40q is no name: it stands in every row, in %d bytes at most", e.Model, event.MaxIDBytes-20)
	case e.Votes < 0 || e.Votes > mostVotes:
		return fmt.Errorf("the judge's votes are %d: give 1 to %d", e.Votes, mostVotes)
	case e.Temperature < 0 || e.Temperature > 2:
		return fmt.Errorf("the judge's temperature is %g: give 0 to 2", e.Temperature)
	case e.MaxTokens < 0 || e.Characters < 0 || e.VoteTimeout < 0 || e.Deadline < 0 || e.Calls < 0:
		return errors.New("the judge's limits must not be negative")
	}
	e.URL = strings.TrimRight(e.URL, "/")
	e.Votes, e.MaxTokens, e.Characters, e.Calls = or(e.Votes, 3), or(e.MaxTokens, 512), or(e.Characters, 8000), or(e.Calls, 6)
	e.VoteTimeout, e.Deadline, e.pause = or(e.VoteTimeout, 10*time.Second), or(e.Deadline, 30*time.Second), or(e.pause, 250*time.Millisecond)
	return nil
}

func or[T int | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

// OpenAI is a Judge behind POST {URL}/chat/completions.
type OpenAI struct {
	at     Endpoint
	client *http.Client
	free   chan struct{} // one for each call under way

	calls, sent atomic.Int64
}

// NewOpenAI makes a judge; it doesn't connect yet. Redirects are not followed: the texts go to the URL that was named and
// nowhere else.
func NewOpenAI(at Endpoint, transport http.RoundTripper) (*OpenAI, error) {
	if err := at.Validate(); err != nil {
		return nil, err
	}
	return &OpenAI{
		at: at, free: make(chan struct{}, at.Calls),
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// Version is judge/model/prompt version.
func (o *OpenAI) Version() string { return "judge/" + o.at.Model + "/" + promptVersion }

// Sent is how many calls were made, repeats included, and how many bytes their bodies had.
func (o *OpenAI) Sent() (calls, bytes int64) { return o.calls.Load(), o.sent.Load() }

// Judge asks for the votes, each in a call of its own, and decides.
func (o *OpenAI) Judge(ctx context.Context, x Exchange) (Verdict, error) {
	text, err := message(x, o.at.Characters)
	if err != nil {
		return Verdict{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, o.at.Deadline)
	defer cancel()
	votes := make([]vote, o.at.Votes)
	var asking sync.WaitGroup
	for i := range votes {
		asking.Go(func() { votes[i] = o.vote(bounded, text, i+1) })
	}
	asking.Wait()
	if ctx.Err() != nil {
		return Verdict{}, ctx.Err()
	}
	return decide(votes)
}

type chat struct {
	Model          string    `json:"model"`
	Messages       []said    `json:"messages"`
	Temperature    float64   `json:"temperature"`
	MaxTokens      int       `json:"max_tokens"`
	Seed           int       `json:"seed"` // so that asking again gives the same answers, where the endpoint can
	ResponseFormat formatted `json:"response_format"`
}

type said struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type formatted struct {
	Type   string `json:"type"`
	Schema struct {
		Name   string          `json:"name"`
		Strict bool            `json:"strict"`
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// vote makes one call, and again while the endpoint says that it is overloaded or broken.
func (o *OpenAI) vote(ctx context.Context, text string, seed int) vote {
	body := chat{
		Model: o.at.Model, Temperature: o.at.Temperature, MaxTokens: o.at.MaxTokens, Seed: seed,
		Messages:       []said{{"system", instructions}, {"user", text}},
		ResponseFormat: formatted{Type: "json_schema"},
	}
	body.ResponseFormat.Schema.Name, body.ResponseFormat.Schema.Strict, body.ResponseFormat.Schema.Schema = "verdict", true, answerSchema
	encoded, err := json.Marshal(body)
	if err != nil {
		return vote{err: err}
	}
	for attempt, pause := 1, o.at.pause; ; attempt, pause = attempt+1, 2*pause {
		v, again := o.call(ctx, encoded)
		if again == nil || attempt == mostAttempts {
			return v
		}
		select {
		case <-ctx.Done():
			return v
		case <-time.After(max(pause, *again)):
		}
	}
}

// call makes one call. again is how long the endpoint wants to be left alone before another one; nil: another one makes
// no sense. Nothing that the endpoint says is put into an error: it may repeat what a user wrote.
func (o *OpenAI) call(ctx context.Context, body []byte) (v vote, again *time.Duration) {
	select {
	case o.free <- struct{}{}:
		defer func() { <-o.free }()
	case <-ctx.Done():
		return vote{outcome: timeout, err: ctx.Err()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.at.VoteTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.at.URL+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return vote{err: err}, nil
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if o.at.Key != "" {
		request.Header.Set("Authorization", "Bearer "+o.at.Key)
	}
	o.calls.Add(1)
	o.sent.Add(int64(len(body)))
	answer, err := o.client.Do(request)
	if err != nil {
		return o.broken(ctx, err), nil
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return o.read(ctx, answer.Body), nil
	}
	err = fmt.Errorf("%w: %s said %s", ErrAway, o.at.URL, answer.Status)
	switch s := answer.StatusCode; {
	case s == http.StatusTooManyRequests || s >= 500:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // a date is not waited for
		wait := time.Duration(min(max(seconds, 0), 3600)) * time.Second
		return vote{err: err}, &wait
	case s == http.StatusBadRequest || s == http.StatusRequestEntityTooLarge || s == http.StatusUnprocessableEntity:
		return vote{outcome: refused, err: err}, nil
	}
	return vote{err: err}, nil // a wrong URL, model or key: nothing about the exchange
}

func (o *OpenAI) broken(ctx context.Context, err error) vote {
	if ctx.Err() != nil {
		return vote{outcome: timeout, err: ctx.Err()}
	}
	return vote{err: fmt.Errorf("%w: %w", ErrAway, err)}
}

// read takes the answer's first choice.
func (o *OpenAI) read(ctx context.Context, body io.Reader) vote {
	document, err := io.ReadAll(io.LimitReader(body, answerLimit))
	if err != nil {
		return o.broken(ctx, err)
	}
	var answer struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(document, &answer); err != nil || len(answer.Choices) == 0 {
		return vote{outcome: unreadable, err: errors.New("the endpoint's answer has no choices")}
	}
	b, err := parse(answer.Choices[0].Message.Content)
	switch {
	case errors.Is(err, errUnclear):
		return vote{outcome: unsure, err: err}
	case err != nil:
		return vote{outcome: unreadable, err: err}
	}
	return vote{outcome: cast, ballot: b}
}
