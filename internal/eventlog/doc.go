// Package eventlog is the event log on Kafka: writing, reading, its topics and the signatures of control records;
// nothing else imports kafka-go.
//
//	Writer   one lane per partition: what waits while a batch is in flight becomes the next batch, so that order
//	         holds, a lone record leaves at once and a crowd leaves in hundreds. acks=all, Java's murmur2.
//	Reader   long polls from an offset that the caller owns (it lives in Postgres, not in a consumer group).
//	Ensure   makes the topics; Check says in sentences how they differ from what the pipeline needs.
//	Keyring  HMAC-SHA256 over topic, partition, key and value of a control record.
//	Decode   a record becomes an event, a control record, or the reason of a dead letter.
//
// Producers repeat: a retry after a lost answer stands twice in the log, and the reader's caller deduplicates.
// Transactional producers must not write to the topic: kafka-go also returns the records of aborted transactions.
package eventlog
