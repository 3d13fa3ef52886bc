package embedded

import "context"

const mavenCentral = "https://repo1.maven.org/maven2"

func binariesFor(ctx context.Context, cfg PostgresConfig, data string, as account) (binaries, error) {
	return findBinaries(ctx, 0)
}
