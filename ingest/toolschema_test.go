package ingest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/ingest"
	"millrace/schemas/event"
)

func TestToolSchemas(t *testing.T) {
	t.Parallel()
	b := setup(t, ingest.Config{})
	tools := []*event.ToolSchema{{Name: "Edit", Kind: event.ToolKind_EDIT_FILE, JsonSchema: `{"type": "object"}`}}
	document, digest := event.ToolSchemaDocument(tools)
	session := func(id, extra string) string {
		return `{"source":"ide","eventId":"` + id + `","sessionId":"s1","occurredAt":"2026-11-01T11:59:59Z","sessionStarted":{` + extra + `}}`
	}
	const brought = `"tools":[{"name":"Edit","kind":"EDIT_FILE","jsonSchema":"{\"type\":\"object\"}"}]`
	unknown := strings.Repeat("ab", 32)

	_, answer := b.send(t, "application/x-ndjson", turnStarted("a", digest)+"\n"+turnStarted("b", "short")+"\n"+turnStarted("c", ""))
	require.Equal(t, "rejected rejected accepted", statuses(answer))
	require.Equal(t, "unknown_tool_schema", answer.Results[0].Reason)
	require.Equal(t, "turnStarted.context.toolSchemaDigest", answer.Results[0].Field)
	require.Len(t, b.log.events(t), 1, "no stub: the same event comes again when the document is registered")
	require.False(t, b.log.events(t)[0].SchemaRegistered)

	b.store.away = true
	_, answer = b.send(t, "application/x-ndjson", session("s", brought)+"\n"+turnStarted("a", digest)+"\n"+ended("e"))
	require.Equal(t, "retry retry accepted", statuses(answer))
	require.Equal(t, "store_away", answer.Results[0].Reason)
	b.store.away = false

	_, answer = b.send(t, "application/x-ndjson", turnStarted("a", digest)+"\n"+session("s", brought)+"\n"+turnStarted("a", digest)+"\n"+
		session("s2", `"toolSchemaDigest":"`+digest+`"`)+"\n"+session("s3", brought+`,"toolSchemaDigest":"`+unknown+`"`)+"\n"+session("s4", `"toolSchemaDigest":"`+unknown+`"`))
	require.Equal(t, "rejected accepted accepted accepted rejected rejected", statuses(answer))
	require.Equal(t, "digest_mismatch", answer.Results[4].Reason)
	require.Contains(t, answer.Results[4].Message, digest)
	require.Equal(t, "unknown_tool_schema", answer.Results[5].Reason)
	events := b.log.events(t)
	require.Equal(t, digest, events[len(events)-3].GetSessionStarted().ToolSchemaDigest)
	require.True(t, events[len(events)-2].SchemaRegistered)
	stored, err := b.store.Get(t.Context(), "tool-schemas/"+digest+".json")
	require.NoError(t, err)
	require.Equal(t, document, stored)

	b.store.away = true
	_, answer = b.send(t, "application/json", turnStarted("z", digest))
	require.Equal(t, "accepted", statuses(answer), "known digests are remembered")
	b.store.away = false

	read := []*event.ToolSchema{{Name: "Read", Kind: event.ToolKind_READ, JsonSchema: `{}`}}
	document, digest = event.ToolSchemaDocument(read)
	path := "/v1/tool-schemas/" + digest
	require.Equal(t, http.StatusNotFound, b.do(t, http.MethodGet, path, nil).Code)
	require.Equal(t, http.StatusNotFound, b.do(t, http.MethodGet, "/v1/tool-schemas/x", nil).Code)
	require.Equal(t, http.StatusOK, b.do(t, http.MethodPut, path, document).Code)
	require.Equal(t, http.StatusOK, b.do(t, http.MethodPut, path, []byte(" [ {\"kind\":\"READ\",\"name\":\"Read\",\"json_schema\":{ } } ]")).Code, "white space is the client's own")
	require.Equal(t, document, b.do(t, http.MethodGet, path, nil).Body.Bytes())
	w := b.do(t, http.MethodPut, "/v1/tool-schemas/"+unknown, document)
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), digest)
	for _, bad := range []string{``, `{}`, `[]`, `[{"name":"x","kind":"MAGIC","json_schema":{}}]`, `[{"kind":"READ","json_schema":{}}]`, `[{"name":"x","json_schema":[]}]`} {
		require.Equal(t, http.StatusBadRequest, b.do(t, http.MethodPut, path, []byte(bad)).Code, bad)
	}
	_, answer = b.send(t, "application/json", turnStarted("y", digest))
	require.Equal(t, "accepted", statuses(answer))

	deep := `{\"a\":` + strings.Repeat("[", 9_998) + strings.Repeat("]", 9_998) + `}`
	_, answer = b.send(t, "application/json", session("s5", `"tools":[{"name":"Deep","jsonSchema":"`+deep+`"}]`))
	require.Equal(t, "bad_document", answer.Results[0].Reason, "readers of the document would refuse it")
}
