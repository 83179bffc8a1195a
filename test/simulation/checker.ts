import { type Evidence, type Facts, gatherFacts } from './facts.ts'
import {
  contactsAreTheNewest,
  erasedTextIsGone,
  erasureHolds,
  repeatsAgree,
  sealedOpens,
} from './judge-answers.ts'
import { chargedOnce, periodsFollowTheCalendar, retriesKeepTheirDays } from './judge-calendar.ts'
import {
  alarmsEnd,
  doubtsEnd,
  doubtsTakeTheirTime,
  keysFollowFromPlaces,
  lateSendsAreLookedUp,
  nothingGivenUpWaits,
  otherAmountsWait,
  refusalsProveSomething,
} from './judge-doubts.ts'
import { givenUpAfterTheLastRetry, retriesAreMade } from './judge-dunning.ts'
import { hintsAreHeeded } from './judge-hints.ts'
import { heldWasMissed, overtakenIsNotSent } from './judge-missed.ts'
import {
  disputesAreFollowed,
  ledgerBalances,
  moneyAgrees,
  numbersHaveNoGap,
  refundsStayWithin,
  unmatchedIsTold,
  unmatchedMoneyGoesBack,
} from './judge-money.ts'
import { pricesAreAsAgreed } from './judge-prices.ts'
import { acknowledgedIsThere, answersAreKnown, cancellationHolds, limiterIsExact } from './judge-requests.ts'
import { failuresHaveCauses, heldStaysHeld, refusalsAreRightful } from './judge-service.ts'
import {
  eventsOnce,
  nothingDue,
  notificationsOnce,
  oneLive,
  oneTrial,
  secretsStayInside,
  statesAgree,
  wavesKeepNobodyWaiting,
} from './judge-traces.ts'

export type Violation = { readonly invariant: string; readonly detail: string }

/** Judges a run that has come to rest. It shares no code with the service and believes nothing that it says of itself. */
export async function check(evidence: Evidence): Promise<Violation[]> {
  const facts = await gatherFacts(evidence)
  const violations: Violation[] = []
  for (const [invariant, findings] of Object.entries(invariants)) {
    for (const detail of await findings(facts)) violations.push({ invariant, detail })
  }
  return violations
}

type Invariant = (facts: Facts) => string[] | Promise<string[]>

const invariants: Readonly<Record<string, Invariant>> = {
  'ledger transfers sum to zero': ledgerBalances,
  "the provider's money is ours": moneyAgrees,
  'a period is charged once, in time, and the right amount': chargedOnce,
  'periods follow the calendar': periodsFollowTheCalendar,
  'a price is the one that was agreed on': pricesAreAsAgreed,
  'what was rightful is not refused': refusalsAreRightful,
  'what failed was declined by somebody': failuresHaveCauses,
  'what was missed is collected by operators alone': heldStaysHeld,
  'what is held was missed': heldWasMissed,
  'what a newer period has overtaken is not sent': overtakenIsNotSent,
  'no more goes back than was taken': refundsStayWithin,
  'what was acknowledged is there': acknowledgedIsThere,
  'every doubt ends': doubtsEnd,
  'a doubt is given up late enough, and a key is used only while it is known': doubtsTakeTheirTime,
  'a "no" counts only where it proves something': refusalsProveSomething,
  'what was given up waits for no customer': nothingGivenUpWaits,
  'a late first send is looked up before': lateSendsAreLookedUp,
  'nothing is booked while the provider names another amount': otherAmountsWait,
  'an alarm ends with its cause': alarmsEnd,
  'a key follows from its place alone': keysFollowFromPlaces,
  'one trial per account for ever': oneTrial,
  'one live subscription per account': oneLive,
  'an acknowledged notification takes effect once': notificationsOnce,
  'an acknowledged hint is looked up': hintsAreHeeded,
  'each fact is told once': eventsOnce,
  'a repeat gets the first answer to the byte': repeatsAgree,
  'what is sealed opens with the keys of every process': sealedOpens,
  'what was erased is gone': erasureHolds,
  'what was told before an erasure is not kept after it': erasedTextIsGone,
  'a contact is the newest that was given': contactsAreTheNewest,
  'no charge after an accepted cancellation': cancellationHolds,
  'money that pays for nothing goes back': unmatchedMoneyGoesBack,
  'unmatched money is never silent': unmatchedIsTold,
  'a dispute is followed to its end, and what the bank has is booked': disputesAreFollowed,
  'invoice numbers have no gap': numbersHaveNoGap,
  'retries keep their days': retriesKeepTheirDays,
  'every retry day is kept': retriesAreMade,
  'what is given up had its last retry': givenUpAfterTheLastRetry,
  'the limiter is exact': limiterIsExact,
  'no secret is seen': secretsStayInside,
  'nothing due stays undone': nothingDue,
  'a wave keeps nobody waiting': wavesKeepNobodyWaiting,
  'states agree with the money': statesAgree,
  'every answer is one the contract knows': answersAreKnown,
}
