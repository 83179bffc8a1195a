-- What a provider took under a reference of ours beside the payment we know, as long as its money is still there.
create table billing.duplicate_payment (
  provider    text not null,
  provider_id text not null,                                  -- of the second one
  payment_id  text not null references billing.payment (id),  -- ours, under the same reference
  found_at    timestamptz not null,                           -- service time
  primary key (provider, provider_id)
);
create index duplicate_payment_of on billing.duplicate_payment (payment_id);
