package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"millrace/checkpoint/experiment"
	"millrace/distill/account"
	"millrace/schemas/ledger"
)

// AccountCommand prints the no-seam table.
type AccountCommand struct {
	Tables `embed:""`
	Policy string `help:"Only turns of this policy version."`
}

// Run implements the command.
func (c *AccountCommand) Run(ctx context.Context, out *Output) error {
	pool, topic, err := c.open(ctx, "account")
	if err != nil {
		return err
	}
	defer pool.Close()
	b, perPartition, asOf, err := readAccountAt(ctx, pool, topic)
	if err != nil {
		return err
	}
	for partition, one := range perPartition {
		if err := one.Check(); err != nil {
			return fmt.Errorf("partition %d does not balance: %w", partition, err)
		}
	}
	if err := knownPolicy(b, c.Policy); err != nil {
		return err
	}
	tests, err := experiment.List(ctx, pool)
	if err != nil {
		return err
	}
	arms := comparedArms(b, tests, c.Policy)
	if out.JSON {
		return out.Object(accountDocument(b, arms, asOf, c.Policy))
	}
	printAccount(out, b, c.Policy)
	return printShares(out, b, arms, asOf, c.Policy)
}

// readAccount reads the balances of all partitions and their sum, all as of one moment: workers go on committing.
func readAccount(ctx context.Context, pool *pgxpool.Pool, topic string) (account.Balance, map[int32]account.Balance, error) {
	sum, each, _, err := readAccountAt(ctx, pool, topic)
	return sum, each, err
}

// readAccountAt also says through which log time every partition has committed; zero: not all have committed anything.
func readAccountAt(ctx context.Context, pool *pgxpool.Pool, topic string) (sum account.Balance, each map[int32]account.Balance, asOf time.Time, err error) {
	sum, each = account.New(), map[int32]account.Balance{}
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := readBalances(ctx, tx, topic, each); err != nil {
			return err
		}
		var through *time.Time
		err := tx.QueryRow(ctx, `select case when bool_and(log_time is not null) then min(log_time) end from partition where topic = $1`, topic).Scan(&through)
		if through != nil {
			asOf = through.UTC()
		}
		return err
	})
	if err != nil {
		return sum, nil, asOf, fmt.Errorf("reading the accounting: %w", err)
	}
	for _, b := range each {
		sum.Add(b)
	}
	return sum, each, asOf, nil
}

// readBalances reads the partitions, their records and their turns. Records or turns of a partition that isn't on
// record make one that doesn't balance.
func readBalances(ctx context.Context, tx pgx.Tx, topic string, each map[int32]account.Balance) error {
	of := func(partition int32) account.Balance {
		if _, known := each[partition]; !known {
			each[partition] = account.New()
		}
		return each[partition]
	}
	var partition int32
	b := account.New()
	rows, err := tx.Query(ctx, `select partition, committed_offset, turns_opened, turns_open from partition where topic = $1`, topic)
	if err != nil {
		return err
	}
	if _, err := pgx.ForEachRow(rows, []any{&partition, &b.Read, &b.Opened, &b.Open}, func() error {
		each[partition] = b.Clone()
		b = account.New()
		return nil
	}); err != nil {
		return err
	}
	var class account.Class
	var n int64
	rows, err = tx.Query(ctx, `select partition, class, records from account_records where topic = $1`, topic)
	if err != nil {
		return err
	}
	if _, err := pgx.ForEachRow(rows, []any{&partition, &class, &n}, func() error {
		of(partition).Records[class] = n
		return nil
	}); err != nil {
		return err
	}
	var k account.Settled
	rows, err = tx.Query(ctx, `select partition, policy_version, arm, disposition, turns from account_turns where topic = $1`, topic)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&partition, &k.PolicyVersion, &k.Arm, &k.Disposition, &n}, func() error {
		of(partition).Settled[k] = n
		return nil
	})
	return err
}

// knownPolicy refuses a version that no turn was counted under, and names those that there are.
func knownPolicy(b account.Balance, policy string) error {
	versions := map[string]bool{}
	for k := range b.Settled {
		versions[k.PolicyVersion] = true
	}
	for version := range b.Open {
		versions[version] = true
	}
	if policy == "" || versions[policy] {
		return nil
	}
	return fmt.Errorf("no turn of policy version %q; there are: %s", policy, strings.Join(sortedKeys(versions), ", "))
}

func printAccount(out *Output, b account.Balance, policy string) {
	t := tabwriter.NewWriter(out.Out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "records read\t%d\t\n", b.Read)
	for _, class := range account.Classes {
		fmt.Fprintf(t, "%s\t%d\t\n", class, b.Records[class])
	}
	opened := "turns opened"
	if policy != "" {
		opened = "turns opened, of all versions"
	}
	fmt.Fprintf(t, "\t\t\n%s\t%d\t\n", opened, b.Opened)
	versions := map[string]map[ledger.Disposition]int64{}
	for k, n := range b.Settled {
		if policy != "" && policy != k.PolicyVersion {
			continue
		}
		if versions[k.PolicyVersion] == nil {
			versions[k.PolicyVersion] = map[ledger.Disposition]int64{}
		}
		versions[k.PolicyVersion][k.Disposition] += n
	}
	for _, version := range sortedKeys(versions) {
		for _, d := range ledger.Dispositions {
			if n := versions[version][d]; n > 0 {
				fmt.Fprintf(t, "%s %s\t%d\t\n", version, d, n)
			}
		}
	}
	for _, version := range sortedKeys(b.Open) {
		if policy != "" && policy != version {
			continue
		}
		fmt.Fprintf(t, "%s still open\t%d\t\n", version, b.Open[version])
	}
	_ = t.Flush()
	if err := b.Check(); err != nil {
		out.Print("NOT BALANCED: %v", err)
		return
	}
	out.Print("balanced: read = applied + amended + duplicate + orphan + expired + dead-lettered + control; opened = settled + open")
}
