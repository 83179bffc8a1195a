-- A charge under its own id as its key is asked for once, by a simulator that keeps its merchants' keys itself: nothing is
-- claimed for it, and no answer kept.
create or replace function sandbox.charge(
  key_text text, print bytea, claimant text, service_now timestamptz, key_window interval,
  new_id text, reference_text text, account text, card text, amount_minor bigint, currency_code text, description_text text,
  declined_as text, first_charge_only boolean, may_repeat boolean,
  event_id text, copies integer, delay interval,
  out outcome text, out http_status integer, out answer text
)
language plpgsql as $$
declare
  is_claimed constant boolean := key_text <> new_id;
  claim      record;
  paid       sandbox.payment;
begin
  if is_claimed then
    select * into claim
    from sandbox.claim_key(key_text, print, claimant, interval '10 seconds', service_now, key_window);
    outcome := claim.outcome;
    http_status := claim.first_status;
    answer := claim.first_answer;
    if outcome <> 'act' then
      return;
    end if;
  end if;
  outcome := 'act';

  if first_charge_only then
    perform pg_advisory_xact_lock(hashtextextended('sandbox.first_charge ' || account, 0));
    if exists (select from sandbox.payment where account_id = account and status = 'paid') then
      declined_as := 'insufficient_funds';
    end if;
  end if;

  insert into sandbox.payment
    (id, reference, copy, account_id, billing_key, amount, currency, description, status, decline_code, created_at, changed_at)
  values (
    new_id, reference_text,
    case when may_repeat then (select count(*) from sandbox.payment where reference = reference_text) else 0 end,
    account, card, amount_minor, currency_code, description_text,
    case when declined_as is null then 'paid' else 'declined' end, declined_as, service_now, service_now
  )
  on conflict (reference, copy) do nothing
  returning * into paid;
  if not found then
    if is_claimed then
      delete from sandbox.idempotency_key where key = key_text;
    end if;
    outcome := 'duplicate';
    return;
  end if;

  perform sandbox.notify(
    event_id, 'payment.' || paid.status, reference_text, null, service_now, copies, delay);
  http_status := case when declined_as is null then 200 else 402 end;
  answer := sandbox.render_payment(paid);
  if is_claimed then
    update sandbox.idempotency_key as k
    set status = charge.http_status, answer = charge.answer
    where k.key = key_text;
  end if;
end $$;

-- An index over whole bodies took each of an intent's fields in at every charge; what is asked for by its contents has a
-- reference, or is a customer's card.
drop index sandbox.wire_object_body;
create index wire_object_customer on sandbox.wire_object (wire, (body ->> 'customer')) where kind = 'payment_method';
