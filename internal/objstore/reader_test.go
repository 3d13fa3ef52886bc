package objstore

import (
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestReader(t *testing.T) {
	t.Parallel()
	store, err := NewFolder(t.TempDir())
	require.NoError(t, err)
	body := []byte("an object that is read from many places")
	require.NoError(t, store.PutIfAbsent(t.Context(), "a/b", body))
	r := NewReader(t.Context(), store, "a/b", int64(len(body)))
	require.NoError(t, iotest.TestReader(r, body))
	_, err = r.Seek(-1, 0)
	require.Error(t, err)
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())

	gone := NewReader(t.Context(), store, "a/c", 1)
	_, err = gone.Read(make([]byte, 1))
	require.ErrorIs(t, err, ErrNotFound)
}
