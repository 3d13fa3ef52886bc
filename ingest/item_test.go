package ingest_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/ingest"
	"millrace/internal/eventlog"
	"millrace/internal/unithash"
	"millrace/schemas/event"
)

// Each bad input has its own answer; what stands before and after it is accepted; it leaves a stub if it can be read who
// it is.
func TestBadItemsHaveNeighbours(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 3000)
	for name, c := range map[string]struct{ item, reason, field, stub string }{
		"two objects on a line": {ended("x") + " " + ended("y"), "malformed_json", "", ""},
		"a string":              {`"hello"`, "not_an_object", "", ""},
		"a number":              {`17`, "not_an_object", "", ""},
		"null":                  {`null`, "not_an_object", "", ""},
		"raw NUL":               {ended("x", "\"unitId\":\"\x00\""), "malformed_json", "unitId", "turn_ended"},
		"escaped NUL in an id":  {ended("x", `"unitId":"\u0000"`), "invalid_text", "unitId", "turn_ended"},
		"lone surrogate":        {ended("x", `"unitId":"\ud800"`), "invalid_text", "unitId", "turn_ended"},
		"duplicate key":         {ended("x", `"source":"ide"`), "duplicate_key", "source", "turn_ended"},
		"1e999":                 {strings.Replace(ended("x"), `"turnEnded":{"reason":"COMPLETED"}`, `"feedbackGiven":{"rating":1e999}`, 1), "out_of_range", "feedbackGiven.rating", "feedback_given"},
		"large result":          {strings.Replace(ended("x"), `"turnEnded":{"reason":"COMPLETED"}`, `"toolReturned":{"output":"`+huge+`"}`, 1), "too_large", "", "tool_returned"},
		"unknown body":          {strings.Replace(ended("x"), "turnEnded", "mindRead", 1), "unknown_body", "mindRead", "-"},
		"no body":               {`{"source":"ide","eventId":"x","sessionId":"s1","turnId":"t1","occurredAt":"2026-11-01T11:59:59Z"}`, "unknown_body", "", "-"},
		"unknown field":         {ended("x", `"colour":"red"`), "unknown_field", "colour", "turn_ended"},
		"time in seconds":       {strings.Replace(ended("x"), `"2026-11-01T11:59:59Z"`, `1793534399`, 1), "wrong_type", "occurredAt", "turn_ended"},
		"time in milliseconds":  {strings.Replace(ended("x"), `"2026-11-01T11:59:59Z"`, `1793534399000`, 1), "wrong_type", "occurredAt", "turn_ended"},
		"time in 1970":          {strings.Replace(ended("x"), `2026-11-01`, `1970-01-21`, 1), "out_of_range", "occurredAt", "turn_ended"},
		"no session":            {strings.Replace(ended("x"), `"sessionId":"s1",`, ``, 1), "missing", "sessionId", ""},
		"no turn":               {strings.Replace(ended("x"), `"turnId":"t1",`, ``, 1), "missing", "turnId", ""},
		"no id":                 {strings.Replace(ended("x"), `"eventId":"x",`, ``, 1), "missing", "eventId", ""},
		"text for a flag":       {strings.Replace(ended("x"), `"COMPLETED"`, `"COMPLETED","asksUser":"true"`, 1), "wrong_type", "turnEnded.asksUser", "turn_ended"},
		"a log-prob of +1":      {strings.Replace(ended("x"), `"turnEnded":{"reason":"COMPLETED"}`, `"stepCompleted":{"step":1,"policyVersion":"p","outputTokenIds":[1],"outputLogprobs":[1]}`, 1), "out_of_range", "stepCompleted.outputLogprobs[0]", "step_completed"},
		"deep":                  {ended("x", `"unitId":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)), "too_deep", "", "turn_ended"},
	} {
		for contentType, body := range map[string]string{
			"application/json":     "[" + ended("before") + "," + c.item + "," + ended("after") + "]",
			"application/x-ndjson": ended("before") + "\n" + c.item + "\n" + ended("after"),
		} {
			t.Run(name+" "+contentType, func(t *testing.T) {
				t.Parallel()
				b := setup(t, ingest.Config{Limits: ingest.Limits{ItemBytes: 2000}})
				w, answer := b.send(t, contentType, body)
				require.Equal(t, http.StatusMultiStatus, w.Code)
				require.Equal(t, "accepted rejected accepted", statuses(answer), w.Body.String())
				require.Equal(t, c.reason, answer.Results[1].Reason, w.Body.String())
				require.Equal(t, c.field, answer.Results[1].Field, w.Body.String())
				require.NotEmpty(t, answer.Results[1].Message)
				require.Equal(t, 2, answer.Accepted)
				require.Equal(t, 1, answer.Rejected)

				events := b.log.events(t)
				if c.stub == "" {
					require.Len(t, events, 2)
					return
				}
				require.Len(t, events, 3)
				stub := events[1]
				require.Equal(t, "ide x s1 t1", fmt.Sprint(stub.Source, " ", stub.EventId, " ", stub.SessionId, " ", stub.TurnId))
				require.Equal(t, "x", answer.Results[1].EventID)
				require.Equal(t, c.reason, stub.GetStub().Reason)
				require.Equal(t, strings.TrimPrefix(c.stub, "-"), stub.GetStub().Body)
				require.EqualValues(t, len(c.item), stub.GetStub().Bytes)
			})
		}
	}
}

func TestBrokenProtobufItem(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	good := &event.SessionEvent{
		Source: "ide", EventId: "a", SessionId: "s1", TurnId: "t1", OccurredAt: timestamppb.New(b.now),
		Body: &event.SessionEvent_TurnEnded{TurnEnded: &event.TurnEnded{}},
	}
	item, err := good.MarshalVT()
	require.NoError(t, err)
	broken := append(bytes.Replace(item, []byte("\x01a"), []byte("\x01b"), 1), 0xff)
	future := good.CloneVT()
	future.EventId, future.Body = "c", nil
	unknown, err := future.MarshalVT()
	require.NoError(t, err)
	unknown = append(unknown, 0xfa, 0x1f, 0) // a body of field 511
	var body []byte
	for _, i := range [][]byte{item, broken, unknown, item} {
		body = append(append(body, 0x0a, byte(len(i))), i...)
	}
	_, answer := b.send(t, "application/x-protobuf", string(body))
	require.Equal(t, "accepted rejected rejected duplicate", statuses(answer))
	require.Equal(t, "malformed_protobuf", answer.Results[1].Reason)
	require.Equal(t, "unknown_body", answer.Results[2].Reason)
	events := b.log.events(t)
	require.Len(t, events, 3)
	require.Equal(t, "b", events[1].EventId)
	require.Equal(t, "turn_ended", events[1].GetStub().Body, "what stood before the fault was read")
}

func TestDuplicatesAndConflicts(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	other := strings.Replace(ended("a"), "COMPLETED", "LENGTH", 1)
	elsewhere := strings.Replace(ended("a"), `"ide"`, `"engine"`, 1)
	w, answer := b.send(t, "application/json", "["+strings.Join([]string{ended("a"), ended("a", `"sentAt":"2026-11-01T12:00:00Z"`), other, elsewhere, ended("b")}, ",")+"]")
	require.Equal(t, http.StatusMultiStatus, w.Code)
	require.Equal(t, "accepted duplicate rejected accepted accepted", statuses(answer))
	require.Equal(t, "conflict", answer.Results[2].Reason)
	require.Contains(t, answer.Results[2].Message, "item 0")
	require.Len(t, b.log.events(t), 3, "the conflict leaves no stub: its identity is taken")

	_, answer = b.send(t, "application/json", ended("a"))
	require.Equal(t, "accepted", statuses(answer), "a repeat in another request is for the reader to find")

	// The log refuses the first of two equal events: the second one can't stand for it.
	b.log.fail = func(eventlog.Message) error { return errors.New("gone") }
	_, answer = b.send(t, "application/json", "["+ended("c")+","+ended("c")+"]")
	require.Equal(t, "retry retry", statuses(answer))
}

func TestPrivacyAtTheDoor(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 16)
	b := setup(t, ingest.Config{UnitKey: key})
	secret := "AKIA" + "IOSFODNN7EXAMPLE"
	_, answer := b.send(t, "application/x-ndjson",
		turnStarted("a", "", `"privacy":"NO_CONTENT"`)+"\n"+
			strings.Replace(turnStarted("b", ""), "make it so", "use "+secret, 1)+"\n"+
			turnStarted("c", "", `"colour":1`))
	require.Equal(t, "accepted accepted rejected", statuses(answer))
	events := b.log.events(t)
	require.Len(t, events, 3)
	require.Empty(t, events[0].GetTurnStarted().Text)
	require.Equal(t, "use [redacted:aws-key]", events[1].GetTurnStarted().Text)
	for _, e := range events {
		require.Equal(t, unithash.Pseudonym(key, "u1"), e.UnitId, "stubs too")
	}
	for _, m := range b.log.messages {
		require.NotContains(t, string(m.Value), secret)
		require.NotContains(t, string(m.Value), "u1\x1a")
	}
}

func TestPackedArrays(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	step := func(id, output string) string {
		return strings.Replace(ended(id), `"turnEnded":{"reason":"COMPLETED"}`,
			`"stepCompleted":{"step":1,"policyVersion":"p1","promptTokenIds":[1,2,3],`+output+`}`, 1)
	}
	tokens := base64.StdEncoding.EncodeToString([]byte{4, 0, 0, 0, 5, 0, 0, 0})
	_, answer := b.send(t, "application/x-ndjson",
		step("a", `"outputTokenIds":[4,5],"outputLogprobs":[-0.25,-1]`)+"\n"+
			step("b", `"outputTokenIds":"`+tokens+`","outputLogprobs":[-0.25,-1],"outputMask":[1,1]`)+"\n"+
			step("c", `"outputTokenIds":[4,5],"outputLogprobs":[-0.25]`))
	require.Equal(t, "accepted accepted rejected", statuses(answer))
	require.Equal(t, "length_mismatch", answer.Results[2].Reason)
	events := b.log.events(t)
	require.Equal(t, events[0].GetStepCompleted().OutputTokenIds, events[1].GetStepCompleted().OutputTokenIds)
	require.Len(t, events[0].GetStepCompleted().PromptTokenIds, 12)
}
