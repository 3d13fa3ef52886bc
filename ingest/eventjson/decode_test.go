package eventjson_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"millrace/ingest/eventjson"
	"millrace/schemas/event"
)

const envelope = `"source":"ide","eventId":"e1","sessionId":"s1","turnId":"t1","occurredAt":"2026-11-01T12:00:00Z"`

func object(members ...string) string {
	return "{" + strings.Join(append([]string{envelope}, members...), ",") + "}"
}

func TestDecode(t *testing.T) {
	t.Parallel()
	packed := base64.StdEncoding.EncodeToString([]byte{1, 0, 0, 0, 255, 255, 255, 127})
	for name, item := range map[string]string{
		"lowerCamelCase":    object(`"turnEnded":{"reason":"COMPLETED","asksUser":true}`),
		"names of schema":   object(`"turn_ended":{"reason":"COMPLETED","asks_user":true}`),
		"numbers as text":   object(`"sequence":"7","turnEnded":{}`),
		"null is absent":    object(`"unitId":null,"turnEnded":{"steps":null}`),
		"white space":       " \t" + object("\n\"turnEnded\" : { } ") + "\r\n",
		"brackets in text":  object(`"turnStarted":{"text":"a \"]}, {[ \\"}`),
		"a key called step": object(`"turnStarted":{"text":"\"stepCompleted\":[1,2]"}`),
		"escaped NUL":       object(`"turnStarted":{"text":"a\u0000b"}`),
		"surrogate pair":    object(`"turnStarted":{"text":"\ud83d\ude00"}`),
	} {
		e, bad := eventjson.Decode([]byte(item))
		require.Nil(t, bad, name)
		want := &event.SessionEvent{}
		require.NoError(t, protojson.Unmarshal([]byte(item), want), name)
		require.True(t, proto.Equal(want, e), name)
	}
	for name, step := range map[string]string{
		"base64":          `"promptTokenIds":"` + packed + `"`,
		"plain":           `"promptTokenIds":[1,2147483647]`,
		"plain, spaced":   `"step":1, "promptTokenIds" : [ 1 , 2147483647 ] , "stopReason":"stop"`,
		"names of schema": `"prompt_token_ids":[1,2147483647]`,
	} {
		e, bad := eventjson.Decode([]byte(object(`"stepCompleted":{` + step + `}`)))
		require.Nil(t, bad, name)
		require.Equal(t, []byte{1, 0, 0, 0, 255, 255, 255, 127}, e.GetStepCompleted().GetPromptTokenIds(), name)
	}
	e, bad := eventjson.Decode([]byte(object(`"stepCompleted":{"outputTokenIds":[5,6],"outputLogprobs":[-0.5,-1e-3],"outputMask":[1,0],"promptTokenIds":[],"step":3}`)))
	require.Nil(t, bad)
	s := e.GetStepCompleted()
	require.Equal(t, []byte{5, 0, 0, 0, 6, 0, 0, 0}, s.OutputTokenIds)
	require.Equal(t, []byte{0, 0, 0, 0xbf, 0x6f, 0x12, 0x83, 0xba}, s.OutputLogprobs)
	require.Equal(t, []byte{1, 0}, s.OutputMask)
	require.Empty(t, s.PromptTokenIds)
	require.EqualValues(t, 3, s.Step)
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)
	step := func(members string) string { return object(`"stepCompleted":{` + members + `}`) }
	for name, c := range map[string]struct{ item, reason, field string }{
		"two objects on a line":    {object(`"turnEnded":{}`) + ` ` + object(`"turnEnded":{}`), "malformed_json", ""},
		"two objects, no space":    {`{}{}`, "malformed_json", ""},
		"a string":                 {`"hello"`, "not_an_object", ""},
		"a number":                 {`17`, "not_an_object", ""},
		"an array":                 {`[{}]`, "not_an_object", ""},
		"nothing":                  {``, "malformed_json", ""},
		"cut":                      {`{"source":"ide","eve`, "malformed_json", ""},
		"mixed brackets":           {`{"source":"ide"]`, "malformed_json", ""},
		"too deep":                 {object(`"turnEnded":` + deep), "too_deep", ""},
		"raw NUL":                  {object("\"turnStarted\":{\"text\":\"a\x00b\"}"), "malformed_json", "turnStarted.text"},
		"NUL between":              {object("\x00\"turnEnded\":{}"), "malformed_json", ""},
		"lone surrogate":           {object(`"turnStarted":{"text":"a\ud800b"}`), "invalid_text", "turnStarted.text"},
		"not UTF-8":                {object("\"turnStarted\":{\"text\":\"a\xff\"}"), "invalid_text", "turnStarted.text"},
		"duplicate key":            {object(`"turnEnded":{"asksUser":true,"asksUser":false}`), "duplicate_key", "turnEnded.asksUser"},
		"duplicate by both names":  {object(`"turnEnded":{"asksUser":true,"asks_user":false}`), "duplicate_key", "turnEnded.asks_user"},
		"duplicate at the top":     {object(`"source":"ide","turnEnded":{}`), "duplicate_key", "source"},
		"1e999":                    {object(`"feedbackGiven":{"rating":1e999}`), "out_of_range", "feedbackGiven.rating"},
		"unknown body":             {object(`"mindRead":{"thought":1}`), "unknown_body", "mindRead"},
		"unknown field":            {object(`"turnEnded":{"mood":"good"}`), "unknown_field", "turnEnded.mood"},
		"unknown field at the top": {object(`"colour":"red","turnEnded":{}`), "unknown_field", "colour"},
		"unknown field in a list":  {object(`"editObserved":{"hunks":[{"ai":"x"},{"later":"y"}]}`), "unknown_field", "editObserved.hunks[1].later"},
		"two bodies":               {object(`"turnEnded":{}`, `"turnStarted":{}`), "conflicting_field", "turnStarted"},
		"two kinds of arguments":   {object(`"toolCalled":{"arguments":"{}","argumentsBytes":"e30="}`), "conflicting_field", "toolCalled.argumentsBytes"},
		"text for a flag":          {object(`"turnEnded":{"asksUser":"true"}`), "wrong_type", "turnEnded.asksUser"},
		"arguments as an object":   {object(`"toolCalled":{"arguments":{"a":1}}`), "wrong_type", "toolCalled.arguments"},
		"body that is no object":   {object(`"turnEnded":true`), "wrong_type", "turnEnded"},
		"list that is none":        {object(`"editObserved":{"hunks":{"ai":"x"}}`), "wrong_type", "editObserved.hunks"},
		"number for text":          {`{"source":1}`, "wrong_type", "source"},
		"negative count":           {object(`"turnEnded":{"steps":-1}`), "out_of_range", "turnEnded.steps"},
		"half a step":              {step(`"step":1.5`), "out_of_range", "stepCompleted.step"},
		"unknown value":            {object(`"turnEnded":{"reason":"BORED"}`), "unknown_value", "turnEnded.reason"},
		"time in seconds":          {`{"occurredAt":1793534400}`, "wrong_type", "occurredAt"},
		"time in milliseconds":     {`{"occurredAt":1793534400000}`, "wrong_type", "occurredAt"},
		"time without zone":        {`{"occurredAt":"2026-11-01T12:00:00"}`, "wrong_type", "occurredAt"},
		"not base64":               {step(`"promptTokenIds":"*"`), "wrong_type", "stepCompleted.promptTokenIds"},
		"null among log-probs":     {step(`"outputLogprobs":[-1,null]`), "wrong_type", "stepCompleted.outputLogprobs[1]"},
		"NaN among log-probs":      {step(`"outputLogprobs":[NaN]`), "wrong_type", "stepCompleted.outputLogprobs[0]"},
		"huge log-prob":            {step(`"outputLogprobs":[-1e999]`), "out_of_range", "stepCompleted.outputLogprobs[0]"},
		"huge token id":            {step(`"outputTokenIds":[3000000000]`), "out_of_range", "stepCompleted.outputTokenIds[0]"},
		"half a token":             {step(`"outputTokenIds":[1.5]`), "out_of_range", "stepCompleted.outputTokenIds[0]"},
		"nested token ids":         {step(`"outputTokenIds":[[1,2]]`), "wrong_type", "stepCompleted.outputTokenIds[0]"},
		"no token between":         {step(`"outputTokenIds":[1,,2]`), "wrong_type", "stepCompleted.outputTokenIds[1]"},
		"token ids, twice":         {step(`"outputTokenIds":[1],"output_token_ids":[1]`), "duplicate_key", "stepCompleted.output_token_ids"},
		"endless key":              {object(`"` + strings.Repeat("k", 1000) + `":1`), "unknown_field", strings.Repeat("k", 60) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, bad := eventjson.Decode([]byte(c.item))
			require.Nil(t, e)
			require.NotNil(t, bad)
			require.Equal(t, c.reason, bad.Reason, bad.Message)
			require.Equal(t, c.field, bad.Field, bad.Message)
			require.NotEmpty(t, bad.Message)
		})
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body  string
		items []string
	}{
		"one event":                 {` {"a":1} `, []string{`{"a":1}`}},
		"one broken event":          {`{"a":[}]`, []string{`{"a":[}]`}},
		"array":                     {`[{"a":1}, {"b":"],"} ,3]`, []string{`{"a":1}`, `{"b":"],"}`, `3`}},
		"empty array":               {`[ ]`, nil},
		"broken neighbours":         {"[{\"a\":\"\x00\"},{} {},,{\"a\":\"\\ud800\"}]", []string{"{\"a\":\"\x00\"}", `{} {}`, ``, `{"a":"\ud800"}`}},
		"batch":                     {`{"events":[{"a":1},{"b":2}]}`, []string{`{"a":1}`, `{"b":2}`}},
		"empty batch":               {`{"events":[]}`, nil},
		"byte order mark":           {"\xef\xbb\xbf[1]", []string{`1`}},
		"events inside an event":    {`{"a":{"events":[1]}}`, []string{`{"a":{"events":[1]}}`}},
		"trailing comma is an item": {`[{},]`, []string{`{}`, ``}},
	} {
		items, err := eventjson.SplitDocument([]byte(c.body), 10)
		require.NoError(t, err, name)
		require.Equal(t, c.items, texts(items), name)
	}
	for name, body := range map[string]string{
		"nothing": ``, "word": `hello`, "string": `"x"`, "open array": `[{}`, "open object": `{"a":1`, "open string": `[{"a":"]`,
		"after the array": `[{}] {}`, "two objects": "{}\n{}", "batch of an object": `{"events":{}}`,
		"batch twice": `{"events":[],"events":[]}`, "batch and more": `{"events":[],"x":1}`, "wrong bracket": `[{}}`, "broken batch": `{"events":[1] "x"}`,
	} {
		_, err := eventjson.SplitDocument([]byte(body), 10)
		require.ErrorIs(t, err, eventjson.ErrEnvelope, name)
	}
	_, err := eventjson.SplitDocument([]byte(`[1,2,3]`), 2)
	require.ErrorIs(t, err, eventjson.ErrTooMany)

	lines, err := eventjson.SplitLines([]byte("{\"a\":1}\r\n\n  \n\"x\"\n{} {}\n{\"b\":2}"), 10)
	require.NoError(t, err)
	require.Equal(t, []string{`{"a":1}`, `"x"`, `{} {}`, `{"b":2}`}, texts(lines))
	lines, err = eventjson.SplitLines(nil, 10)
	require.NoError(t, err)
	require.Empty(t, lines)
	_, err = eventjson.SplitLines([]byte("1\n2\n3"), 2)
	require.ErrorIs(t, err, eventjson.ErrTooMany)
}

func texts(items [][]byte) []string {
	var all []string
	for _, i := range items {
		all = append(all, string(i))
	}
	return all
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	for name, item := range map[string]string{
		"bad body":   object(`"unitId":"u1","sequence":4,"privacy":"NO_CONTENT","toolReturned":{"output":"\ud800"}`),
		"bad time":   strings.Replace(object(`"unitId":"u1","sequence":"4","privacy":2,"toolReturned":{}`), "2026", "x", 1),
		"cut at end": strings.TrimSuffix(object(`"unitId":"u1","sequence":4,"privacy":"NO_CONTENT","toolReturned":{},"more":{`), "}"),
		"null time":  object(`"sentAt":null,"unitId":"u1","sequence":4,"privacy":"NO_CONTENT","toolReturned":{}`),
	} {
		e, body := eventjson.Identity([]byte(item))
		require.Equal(t, "ide e1 s1 t1 u1 4 NO_CONTENT", fmt.Sprint(e.Source, " ", e.EventId, " ", e.SessionId, " ", e.TurnId, " ", e.UnitId, " ", e.Sequence, " ", e.Privacy), name)
		require.Equal(t, "tool_returned", body, name)
		require.Nil(t, e.Body)
	}
	e, body := eventjson.Identity([]byte(`"a string"`))
	require.Empty(t, body)
	require.True(t, proto.Equal(&event.SessionEvent{}, e))
}

// Whatever is sent, reading it never panics; what is read is JSON, and can be read of its own JSON again.
func FuzzEventsJSON(f *testing.F) {
	for _, seed := range []string{
		object(`"turnEnded":{"reason":"COMPLETED"}`), object(`"stepCompleted":{"outputTokenIds":[1,2],"outputLogprobs":[-1,-2]}`),
		`[{"a":"\ud800"},{} {}]`, `{"events":[{"turnStarted":{"text":"]"}}]}`, "{\"a\":1}\n\"x\"\n", `{"editObserved":{"hunks":[{"ai":1e999}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		items, err := eventjson.SplitDocument(body, 100)
		if err != nil {
			items, err = eventjson.SplitLines(body, 100)
		}
		if err != nil {
			return
		}
		for _, item := range items {
			eventjson.Identity(item)
			e, bad := eventjson.Decode(item)
			require.Equal(t, e == nil, bad != nil)
			if bad != nil {
				require.NotEmpty(t, bad.Reason)
				require.NotEmpty(t, bad.Message)
				continue
			}
			again, err := protojson.Marshal(e)
			require.NoError(t, err)
			require.True(t, json.Valid(again))
			back, bad := eventjson.Decode(again)
			require.Nil(t, bad)
			require.True(t, proto.Equal(e, back) || strings.Contains(string(again), "NaN"))
		}
	})
}
