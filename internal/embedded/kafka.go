package embedded

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Kafka is a broker in this process, on loopback, that keeps its data in a folder. It doesn't replicate, and it doesn't
// enforce message.timestamp.after.max.ms. What it acknowledged survives a kill of the process, not a loss of power.
type Kafka struct {
	cluster *kfake.Cluster
	lock    *Lock
}

// StartKafka starts a broker on a port of 127.0.0.1 (0: any free one) over the data in dir.
func StartKafka(dir string, port int) (*Kafka, error) {
	if port < 0 || port > 65535 {
		return nil, fmt.Errorf("embedded Kafka: %d is no port", port)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("embedded Kafka: %w", err)
	}
	lock, err := LockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("embedded Kafka: %w", err)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir))
	if err != nil {
		_ = lock.Release()
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("embedded Kafka: port %d of 127.0.0.1 is taken by another process; choose another port, or 0 for any: %w", port, err)
		}
		return nil, fmt.Errorf("embedded Kafka over %s: %w", dir, err)
	}
	return &Kafka{cluster, lock}, nil
}

// Brokers returns the broker's address, host:port.
func (k *Kafka) Brokers() []string { return k.cluster.ListenAddrs() }

// Close stops the broker and brings its data to disk.
func (k *Kafka) Close() error {
	k.cluster.Close()
	return k.lock.Release()
}
