import { countWaiting, requeueWebhooks } from '../billing/webhooks/inbox-rows.ts'
import { processWebhooks } from '../billing/webhooks/process-webhook.ts'
import { type Command, CommandFailed, parseFlags, print, printJson, UsageError, withApp } from './command.ts'

export const replayWebhook: Command = {
  summary: 'Act again on a stored notification of the provider',
  usage: `rankledger replay-webhook EVENT_ID [--json]
rankledger replay-webhook --failed [--json]

The payment it speaks of is looked up at the provider, and what is true by now is recorded. That is safe any number of
times. \`rankledger db status\` tells how many have failed.`,

  async run(args) {
    const { values, positionals } = parseFlags(args, {
      failed: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    })
    const [eventId, ...more] = positionals
    if (more.length > 0 || values.failed === (eventId !== undefined)) {
      throw new UsageError('Name one event, or give --failed.')
    }
    return withApp('replay-webhook', async (app) => {
      const requeued = await requeueWebhooks(app.billing.db, eventId === undefined ? 'failed' : { eventId })
      if (eventId !== undefined && requeued.length === 0) {
        throw new CommandFailed(`No event ${eventId} is stored.`)
      }
      if (requeued.some(({ queued }) => !queued)) {
        throw new CommandFailed('This event speaks of no payment, so there is nothing to look up.')
      }
      await processWebhooks(app.billing)
      const left = await countWaiting(
        app.billing.db,
        requeued.map((one) => one.eventId),
      )
      const done = requeued.length - left
      if (values.json) printJson({ requeued: requeued.length, done, waiting: left })
      else
        print(
          `${requeued.length} put back into the line: ${done} done, ${left} wait for the provider or a worker.`,
        )
      return 0
    })
  },
}
