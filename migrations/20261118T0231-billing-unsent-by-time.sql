-- For /upcoming: charges that wait to be sent, in its order, and those of one account. Both are empty but for an outage.
create index payment_unsent_by_time on billing.payment (created_at, subscription_id)
  where status in ('sending', 'unknown') and sent_at is null;
create index payment_unsent_by_account on billing.payment (account_id)
  where status in ('sending', 'unknown') and sent_at is null;
