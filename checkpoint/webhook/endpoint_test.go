package webhook

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// The example of the Standard Webhooks specification.
func TestSign(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	require.NoError(t, sign(h, secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)))
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", h.Get("Webhook-Signature"))
	require.Equal(t, "1614265330", h.Get("Webhook-Timestamp"))
	require.Equal(t, "msg_p5jXN8AQM9LWM0D4loKWxJek", h.Get("Webhook-Id"))
	require.Error(t, sign(h, "whsec_short", "a", time.Now(), nil))
}

func TestParse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	env := func(name string) string { return map[string]string{"HOOK": secret, "WEAK": "whsec_abc"}[name] }
	head := "apiVersion: millrace/v1\nkind: Webhooks\nwebhooks:\n"
	got, err := Parse([]byte(head+"  - {name: a, url: 'https://h/x', secret_env: HOOK, types: [release.promote, candidate.*]}\n  - {name: b, url: 'http://127.0.0.1:9/x', secret_file: "+file+"}\n"), env)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, secret, got[1].Secret)
	for kind, want := range map[string]bool{"release.promote": true, "release.rollback": false, "candidate.held": true, "cut.packed": false} {
		require.Equal(t, want, got[0].wants(kind), kind)
		require.True(t, got[1].wants(kind))
	}
	for name, c := range map[string]struct{ entry, says string }{
		"no name":       {"{url: 'https://h/x', secret_env: HOOK}", "name"},
		"no url":        {"{name: a, secret_env: HOOK}", "want https://"},
		"a file":        {"{name: a, url: 'file:///etc/passwd', secret_env: HOOK}", "want https://"},
		"a password":    {"{name: a, url: 'https://u:p@h/x', secret_env: HOOK}", "without a password"},
		"no secret":     {"{name: a, url: 'https://h/x'}", "secret_env or secret_file"},
		"unset":         {"{name: a, url: 'https://h/x', secret_env: NONE}", "NONE is not set"},
		"weak":          {"{name: a, url: 'https://h/x', secret_env: WEAK}", "whsec_"},
		"no file":       {"{name: a, url: 'https://h/x', secret_file: /nowhere/s}", "nowhere"},
		"unknown type":  {"{name: a, url: 'https://h/x', secret_env: HOOK, types: [weather.fine]}", "weather.fine"},
		"unknown field": {"{name: a, uri: 'https://h/x'}", "uri"},
	} {
		_, err := Parse([]byte(head+"  - "+c.entry+"\n"), env)
		require.ErrorContains(t, err, c.says, name)
		require.NotContains(t, err.Error(), secret)
	}
	_, err = Parse(nil, env)
	require.ErrorContains(t, err, "empty")
}
