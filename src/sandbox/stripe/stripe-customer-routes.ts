import { newId } from '../../platform/id.ts'
import type { ProviderContext } from '../provider-context.ts'
import { listOf, textOf } from './form.ts'
import type { StripeCalls } from './stripe-calls.ts'
import { deletedCustomer, renderCustomer, renderMethod, renderSetup } from './stripe-customer-objects.ts'
import { invalid, missing } from './stripe-error.ts'
import { metadataOf } from './stripe-intents.ts'
import { renderList, type StoredCustomer, type StoredMethod, type StoredSetup } from './stripe-objects.ts'
import { limitOf } from './stripe-pages.ts'
import { newSecretOf, type StripeStore } from './stripe-store.ts'

/** Customers, and the cards that are kept for them. */
export function customerRoutes(
  context: ProviderContext,
  store: StripeStore,
  { post, get, remove }: StripeCalls,
): void {
  const { objects } = context
  const customerOr404 = async (id: string, param = 'id', status = 404): Promise<StoredCustomer> => {
    const customer = await objects.get<StoredCustomer>('customer', id)
    if (!customer) throw missing('customer', id, param, status)
    return customer
  }

  post(
    '/customers',
    ['email', 'name', 'description', 'metadata', 'phone', 'address', 'expand'],
    async (form) => {
      const now = await context.now()
      const customer: StoredCustomer = {
        id: newId('cus_', now),
        email: textOf(form, 'email') ?? null,
        name: textOf(form, 'name') ?? null,
        description: textOf(form, 'description') ?? null,
        metadata: metadataOf(form),
        createdAt: now.toISOString(),
      }
      await objects.put('customer', customer.id, customer, now)
      return { body: renderCustomer(customer) }
    },
  )
  get('/customers/:id', async (_query, id) =>
    (await objects.get('deleted_customer', id))
      ? deletedCustomer(id)
      : renderCustomer(await customerOr404(id)),
  )
  remove('/customers/:id', async (id) => {
    await customerOr404(id)
    const now = await context.now()
    const cards = await objects.cardsOf<StoredMethod>(id)
    for (const card of cards) await store.detach(card, now)
    // It can still be retrieved, and is missing to every other call.
    await objects.put('deleted_customer', id, {}, now)
    await objects.remove('customer', id)
    return deletedCustomer(id)
  })
  get('/customers', async (query) => {
    const limit = limitOf(query)
    const found = await objects.newest<StoredCustomer>('customer', limit + 1)
    return renderList(found.slice(0, limit).map(renderCustomer), found.length > limit, '/v1/customers')
  })

  const setupNames = [
    'customer',
    'usage',
    'automatic_payment_methods',
    'allowed_payment_method_types',
    'metadata',
    'payment_method',
    'confirm',
    'return_url',
    'mandate_data',
    'description',
    'expand',
  ]
  const finishSetup = async (setup: StoredSetup, named: string, now: Date): Promise<StoredSetup> => {
    if (setup.customer !== null) await customerOr404(setup.customer, 'customer', 400)
    const method = await store.method(named)
    if (!method || method.isDetached) throw missing('PaymentMethod', named, 'payment_method', 400)
    const attached = setup.customer === null ? method : await store.attach(method, setup.customer, now)
    const done = { ...setup, paymentMethod: attached.id, status: 'succeeded' as const }
    await objects.put('setup_intent', done.id, done, now)
    return done
  }
  post('/setup_intents', setupNames, async (form) => {
    const now = await context.now()
    const customer = textOf(form, 'customer') ?? null
    if (customer !== null) await customerOr404(customer, 'customer', 400)
    const id = newId('seti_', now)
    const setup: StoredSetup = {
      id,
      customer,
      paymentMethod: null,
      status: 'requires_payment_method',
      metadata: metadataOf(form),
      clientSecret: newSecretOf(id),
      createdAt: now.toISOString(),
    }
    const named = textOf(form, 'payment_method')
    if (named !== undefined && textOf(form, 'confirm') === 'true')
      return { body: renderSetup(await finishSetup(setup, named, now)) }
    await objects.put('setup_intent', id, setup, now)
    return { body: renderSetup(setup) }
  })
  const setupOr404 = async (id: string) => {
    const setup = await store.setup(id)
    if (!setup) throw missing('setupintent', id, 'intent')
    return setup
  }
  get('/setup_intents/:id', async (query, id) => {
    const setup = await setupOr404(id)
    const wanted = listOf(query, 'expand').includes('payment_method')
    const method =
      wanted && setup.paymentMethod !== null ? await store.method(setup.paymentMethod) : undefined
    return renderSetup(setup, method && renderMethod(method))
  })
  post(
    '/setup_intents/:id/confirm',
    ['payment_method', 'return_url', 'client_secret', 'mandate_data', 'expand'],
    async (form, id) => {
      const setup = await setupOr404(id)
      if (setup.status === 'succeeded' || setup.status === 'canceled')
        throw invalid(`You cannot confirm this SetupIntent because it has a status of ${setup.status}.`, {
          code: 'setup_intent_unexpected_state',
        })
      const named = textOf(form, 'payment_method')
      if (named === undefined)
        throw invalid('You cannot confirm this SetupIntent because it is missing a payment method.', {
          code: 'setup_intent_unexpected_state',
        })
      return { body: renderSetup(await finishSetup(setup, named, await context.now())) }
    },
  )

  const methodOr404 = async (id: string) => {
    const method = await store.method(id)
    if (!method) throw missing('PaymentMethod', id, 'payment_method')
    return method
  }
  get('/payment_methods/:id', async (_query, id) => renderMethod(await methodOr404(id)))
  post('/payment_methods/:id/attach', ['customer', 'expand'], async (form, id) => {
    const method = await methodOr404(id)
    const customer = textOf(form, 'customer') ?? ''
    await customerOr404(customer, 'customer', 400)
    if (method.isDetached) {
      throw invalid('This PaymentMethod was detached from its customer and may not be used again.', {
        param: 'payment_method',
      })
    }
    if (method.customer !== null && method.customer !== customer)
      throw invalid('The payment method you provided has already been attached to a customer.')
    return { body: renderMethod(await store.attach(method, customer, await context.now())) }
  })
  post('/payment_methods/:id/detach', ['expand'], async (_form, id) => {
    const method = await methodOr404(id)
    if (method.customer === null) {
      throw invalid(
        'The payment method you provided is not attached to a customer so detachment is impossible.',
        {
          param: 'payment_method',
        },
      )
    }
    return { body: renderMethod(await store.detach(method, await context.now())) }
  })
}
