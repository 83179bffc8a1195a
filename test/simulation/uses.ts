import type { Play, Script } from './play.ts'
import { zones } from './workload.ts'

/** A use of the service in one of its courses. */
export type Course = {
  readonly use: Use
  readonly name: string
  /** What must be there before; nobody dies in it. */
  readonly before?: Script
  /** What is done, and cut short at every place once. */
  readonly act: Script
  /** Last answers that are fair too: a key for one use died with its process, or a sweep came before the repeat. */
  readonly orElse?: readonly number[]
  /** After how many seconds one who died is followed by another; where it matters, before anything else falls due. */
  readonly followedAfter?: readonly number[]
}

export const uses = [
  'subscribe',
  'trial',
  'renew',
  'refund',
  'cancel',
  'resume',
  'card change',
  'webhook',
] as const
export type Use = (typeof uses)[number]

const second = 1_000
const hour = 3_600_000
const day = 24 * hour

/** Every use in every course that ends it differently. The first of each use is its plainest. */
export const courses: readonly Course[] = [
  ...of('subscribe', {
    paid: { act: subscribe('ok', 201) },
    declined: { act: subscribe('poor', 402) },
    'a card that nobody has': { act: subscribe('nobody', 422) },
    'the answer is lost and found at once': { act: charging('lost_answer', [], subscribe('ok', 201)) },
    'the answer is lost and nobody answers for a while': {
      act: inTurn(charging('lost_answer', ['lookup_error'], subscribe('ok', 202)), later),
    },
    'the request is lost': { act: inTurn(charging('lost_request', [], subscribe('ok', 202)), later) },
    'too slow for the caller': { act: inTurn(charging('slow', [], subscribe('ok', 202)), later) },
    'hangs after the charge': { act: inTurn(charging('stall_after', [], subscribe('ok', 202)), later) },
    'the provider refuses': {
      act: charging('refused', [], subscribe('ok', 502)),
      // What a sweep sent for the dead was promised by then, so that the refusal is the last word and the key begins nothing anew.
      orElse: [502],
    },
    'nothing was sent': { act: charging('not_sent', [], subscribe('ok', 503)) },
    'the provider takes its time': {
      act: inTurn(charging('pending', [], subscribe('ok', 202)), decided, later),
    },
    'waits for a customer who confirms': {
      act: inTurn(subscribe('asks', 202), confirmed, later),
    },
    'waits for a customer who does not': { before: subscribe('asks', 202), act: due },
    'the adapter blows up': { act: inTurn(charging('explode', [], subscribe('ok', 500)), later) },
    'a key for one use': {
      act: (play) => play.ask('/subscribe', { ...weekly, payment_method: play.oneTimeCard('ok') }, 201),
      orElse: [422],
    },
  }),
  ...of('trial', {
    granted: { act: trial(201) },
    'ends without a card': { before: trial(201), act: due },
    'gets a card': { before: trial(201), act: subscribe('ok', 201) },
    'is charged at its end': { before: inTurn(trial(201), subscribe('ok', 201)), act: due },
    'is declined at its end': { before: inTurn(trial(201), subscribe('poor', 201)), act: due },
    'was used before': { before: inTurn(trial(201), due), act: trial(409) },
  }),
  ...of('renew', {
    paid: { before: subscribe('ok', 201), act: due },
    declined: { before: subscribe('once', 201), act: due },
    'the answer is lost and nobody answers for a while': {
      before: subscribe('ok', 201),
      act: inTurn(charging('lost_answer', ['lookup_error'], due), later),
    },
    'the request is lost': {
      before: subscribe('ok', 201),
      act: inTurn(charging('lost_request', [], due), later),
    },
    'hangs after the charge': {
      before: subscribe('ok', 201),
      act: inTurn(charging('stall_after', [], due), later),
    },
    'nothing was sent': { before: subscribe('ok', 201), act: inTurn(charging('not_sent', [], due), later) },
    'the provider takes its time': {
      before: subscribe('ok', 201),
      act: inTurn(charging('pending', [], due), decided, later),
    },
    'waits for a customer, and then a retry': {
      before: inTurn(subscribe('asks', 202), confirmed, later, due),
      // The wait is over for certain, also where whoever was to end it died: the customer is too late.
      act: inTurn(due, later, confirmed, later),
    },
    'waits for a customer who is faster than the retry': {
      before: inTurn(subscribe('asks', 202), confirmed, later, due),
      act: ending('cancel_overtaken', inTurn(due, later)),
    },
    'periods were missed': { before: inTurn(subscribe('ok', 201), away(30)), act: work },
    'a retry is paid': {
      before: inTurn(subscribe('ok', 201), charging('refused', [], due)),
      act: due,
    },
    'given up after the last retry': {
      before: inTurn(subscribe('once', 201), due, due, due, due),
      act: due,
    },
  }),
  ...of('refund', {
    whole: { before: subscribe('ok', 201), act: refund(undefined, 200) },
    'in two parts': { before: subscribe('ok', 201), act: inTurn(refund(900, 200), refund(400, 200)) },
    declined: { before: subscribe('ok', 201), act: refunding('declined', [], refund(900, 402)) },
    'the answer is lost and found at once': {
      before: subscribe('ok', 201),
      act: refunding('lost_answer', [], refund(900, 200)),
    },
    'the answer is lost and nobody answers for a while': {
      before: subscribe('ok', 201),
      act: inTurn(refunding('lost_answer', ['lookup_error'], refund(900, 202)), later),
    },
    'the request is lost': {
      before: subscribe('ok', 201),
      act: inTurn(refunding('lost_request', [], refund(900, 202)), later),
    },
    'too slow for the caller': {
      before: subscribe('ok', 201),
      act: inTurn(refunding('slow', [], refund(900, 202)), later),
    },
    'hangs after the money went back': {
      before: subscribe('ok', 201),
      act: inTurn(refunding('stall_after', [], refund(900, 202)), later),
    },
    'the provider takes its time': {
      before: subscribe('ok', 201),
      act: inTurn(refunding('pending', [], refund(900, 202)), decided, later),
    },
    'nothing was sent': { before: subscribe('ok', 201), act: refunding('not_sent', [], refund(900, 503)) },
  }),
  ...of('cancel', {
    'before the billing date': { before: subscribe('ok', 201), act: inTurn(cancel(200), due) },
    'of a trial': { before: trial(201), act: inTurn(cancel(200), due) },
    'past due': { before: inTurn(subscribe('once', 201), due), act: cancel(200) },
    'less than the lead is left': {
      before: inTurn(subscribe('ok', 201), (play) => toJustBefore(play, 30 * second)),
      act: cancel(200),
      followedAfter: [14],
    },
    'while the first charge is in doubt': {
      before: charging('lost_answer', ['lookup_error'], subscribe('ok', 202)),
      act: inTurn(cancel(200), later),
      orElse: [201, 200],
    },
    'while a renewal is in doubt': {
      before: inTurn(subscribe('ok', 201), charging('lost_answer', ['lookup_error'], due)),
      act: inTurn(cancel(200), later),
    },
  }),
  ...of('resume', {
    'renewed after all': {
      before: inTurn(subscribe('ok', 201), cancel(200)),
      act: inTurn(resume(200), due),
    },
    'of a trial': { before: inTurn(trial(201), cancel(200)), act: resume(200) },
    'too late': { before: inTurn(subscribe('ok', 201), cancel(200), due), act: resume(409) },
  }),
  ...of('card change', {
    active: { before: subscribe('ok', 201), act: changeCard('ok', 200) },
    'a card that nobody has': { before: subscribe('ok', 201), act: changeCard('nobody', 422) },
    'past due, and it pays': { before: inTurn(subscribe('once', 201), due), act: changeCard('ok', 200) },
    'past due, and it is declined': {
      before: inTurn(subscribe('once', 201), due),
      act: changeCard('poor', 402),
    },
    'past due, and the answer is lost': {
      before: inTurn(subscribe('once', 201), due),
      act: inTurn(charging('lost_answer', ['lookup_error'], changeCard('ok', 202)), later),
    },
    'past due, and the request is lost': {
      before: inTurn(subscribe('once', 201), due),
      act: inTurn(charging('lost_request', [], changeCard('ok', 202)), later),
    },
    'a key for one use': {
      before: subscribe('ok', 201),
      act: async (play) =>
        play.ask(
          '/payment-method',
          { subscription_id: await play.subscription(), payment_method: play.oneTimeCard('ok') },
          200,
        ),
      orElse: [422],
    },
  }),
  ...of('webhook', {
    'says what we know': { before: subscribe('ok', 201), act: told },
    'a charge that we did not hear of': {
      before: charging('lost_answer', ['lookup_error'], subscribe('ok', 202)),
      act: told,
    },
    'a charge that we did not hear of, while nobody answers': {
      before: charging('lost_answer', ['lookup_error'], subscribe('ok', 202)),
      act: inTurn(unanswered, told, later),
    },
    'money refunded by hand': {
      before: inTurn(subscribe('ok', 201), told, ({ world }) => byHand(world.model)),
      act: told,
    },
    'a refund that bounced': {
      before: inTurn(subscribe('ok', 201), refund(900, 200), told, ({ world }) => bounced(world.model)),
      act: told,
    },
    'a dispute': {
      before: inTurn(subscribe('ok', 201), told, async ({ world }) =>
        world.model.dispute(world.model.book[0]!),
      ),
      act: told,
    },
    'money that arrives after it was given up': {
      before: inTurn(subscribeInVain, givenUp, async ({ world }) => void world.model.arrive()),
      act: inTurn(told, work),
    },
    'the same one twice': {
      before: inTurn(subscribe('ok', 201), told, ({ world }) => byHand(world.model)),
      act: inTurn(told, forgotten, told),
    },
  }),
]

function of(use: Use, named: Readonly<Record<string, Omit<Course, 'use' | 'name'>>>): Course[] {
  return Object.entries(named).map(([name, course]) => ({ use, name, ...course }))
}

function inTurn(...scripts: readonly Script[]): Script {
  return async (play) => {
    for (const script of scripts) await script(play)
  }
}

const weekly = { account_id: 'acct_1', plan_id: 'weekly' }

function subscribe(card: Parameters<Play['card']>[0], status: number): Script {
  return (play) => {
    const timezone = play.world.random.pick(zones)
    return play.ask('/subscribe', { ...weekly, timezone, payment_method: play.card(card) }, status)
  }
}

function trial(status: number): Script {
  return (play) => play.ask('/trial', weekly, status)
}

function refund(amount: number | undefined, status: number): Script {
  return async (play) => {
    const invoice_id = await play.invoice()
    await play.ask('/refund', { invoice_id, ...(amount !== undefined && { amount }) }, status)
  }
}

function cancel(status: number): Script {
  return async (play) => play.ask('/cancel', { subscription_id: await play.subscription() }, status)
}

function resume(status: number): Script {
  return async (play) => play.ask('/resume', { subscription_id: await play.subscription() }, status)
}

function changeCard(card: Parameters<Play['card']>[0], status: number): Script {
  return async (play) => {
    const subscription_id = await play.subscription()
    await play.ask('/payment-method', { subscription_id, payment_method: play.card(card) }, status)
  }
}

/** The script's first charge meets a fault, and what is looked up then meets others. */
function charging(fault: string, lookups: readonly string[], script: Script): Script {
  return (play) => {
    play.plan('charge', fault)
    play.plan('lookup', ...lookups)
    return script(play)
  }
}

function refunding(fault: string, lookups: readonly string[], script: Script): Script {
  return (play) => {
    play.plan('refund', fault)
    play.plan('lookup', ...lookups)
    return script(play)
  }
}

function work(play: Play): Promise<void> {
  return play.work()
}

async function due(play: Play): Promise<void> {
  await play.toNextDue()
  await play.work()
}

/** The next end of a waiting charge meets a fault. */
function ending(fault: string, script: Script): Script {
  return (play) => {
    play.plan('cancel', fault)
    return script(play)
  }
}

/** Customers confirm whatever waits for them. */
async function confirmed({ world }: Play): Promise<void> {
  for (const charge of world.model.book) world.model.confirm(charge)
}

/** A while passes, in which hanging calls come to their end, and a sweep looks what became of everything. */
async function later(play: Play): Promise<void> {
  play.world.pass(30 * second)
  await play.world.releaseStalled()
  await play.work()
}

async function decided({ world }: Play): Promise<void> {
  world.model.decidePending(() => true)
}

function away(days: number): Script {
  return async ({ world }) => world.turnTo(world.now() + days * day)
}

async function toJustBefore(play: Play, ms: number): Promise<void> {
  const due = await play.world.nextDue()
  play.world.turnTo(due! - ms)
}

async function unanswered(play: Play): Promise<void> {
  play.plan('lookup', 'lookup_error')
}

async function told(play: Play): Promise<void> {
  await play.deliver()
  play.world.pass(5 * second)
  await play.work()
}

/** The provider did not hear that its last notification was taken. */
async function forgotten({ world }: Play): Promise<void> {
  world.model.notices.at(-1)!.taken = false
}

async function byHand(model: Play['world']['model']): Promise<void> {
  model.refundByHand(model.book[0]!, 500n)
}

async function bounced(model: Play['world']['model']): Promise<void> {
  const charge = model.book[0]!
  model.bounce(charge, charge.refunds[0]!)
}

/** The request is on its way for days, and every other one is lost. */
async function subscribeInVain(play: Play): Promise<void> {
  play.plan('charge', 'late_request', ...Array.from({ length: 20 }, () => 'lost_request'))
  await subscribe('ok', 202)(play)
}

/** The key window closes, three lookups over more than an hour find nothing, and nothing is left to wait for. */
async function givenUp(play: Play): Promise<void> {
  while ((await play.world.nextDue()) !== undefined) await due(play)
  play.plan('charge')
}
