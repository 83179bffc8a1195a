import type { QueryClient } from '@tanstack/react-query'
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from '@tanstack/react-router'
import { ApiError } from './api/client.ts'
import { fetchSession } from './api/session.ts'
import { Overview } from './pages/overview.tsx'
import { SignIn } from './pages/sign-in.tsx'
import { Layout } from './ui/layout.tsx'
import { NotFound, PageFailure } from './ui/page-failure.tsx'

/** What stands behind the question mark: filters, by name. */
export type Filters = Record<string, string | undefined>

const root = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  component: Outlet,
  validateSearch: (search: Record<string, unknown>): Filters =>
    Object.fromEntries(
      Object.entries(search).map(([name, value]) => [name, value === undefined ? undefined : String(value)]),
    ),
})

const signIn = createRoute({ getParentRoute: () => root, path: '/sign-in', component: SignIn })

/** Every page but the first asks who is signed in before it asks for anything else. */
const inside = createRoute({
  getParentRoute: () => root,
  id: 'inside',
  component: Layout,
  beforeLoad: async ({ context, location }) => {
    try {
      await context.queryClient.ensureQueryData({
        queryKey: ['session'],
        queryFn: fetchSession,
        staleTime: 60_000,
        retry: false,
      })
    } catch (error) {
      if (error instanceof ApiError && error.status === 401)
        throw redirect({ to: '/sign-in', search: location.href === '/' ? {} : { next: location.href } })
      throw error
    }
  },
})

type Page = Parameters<typeof lazyRouteComponent>[0]
const page = (path: string, load: Page, name: string) =>
  createRoute({ getParentRoute: () => inside, path, component: lazyRouteComponent(load, name) })

const pages = [
  createRoute({ getParentRoute: () => inside, path: '/', component: Overview }),
  page('/subscriptions', () => import('./pages/subscriptions.tsx'), 'Subscriptions'),
  page('/subscriptions/$id', () => import('./pages/subscription.tsx'), 'Subscription'),
  page('/accounts', () => import('./pages/accounts.tsx'), 'Accounts'),
  page('/accounts/$id', () => import('./pages/accounts.tsx'), 'Account'),
  page('/invoices', () => import('./pages/invoices.tsx'), 'Invoices'),
  page('/invoices/$id', () => import('./pages/invoice.tsx'), 'Invoice'),
  page('/plans', () => import('./pages/plans.tsx'), 'Plans'),
  page('/trials', () => import('./pages/subscriptions.tsx'), 'Trials'),
  page('/keywords', () => import('./pages/keywords.tsx'), 'Keywords'),
  page('/keywords/$keyword', () => import('./pages/keyword.tsx'), 'Keyword'),
  page('/tracking', () => import('./pages/tracking.tsx'), 'Tracking'),
  page('/training', () => import('./pages/training.tsx'), 'Training'),
  page('/models/$id', () => import('./pages/model.tsx'), 'Model'),
  page('/sandbox', () => import('./pages/sandbox.tsx'), 'Sandbox'),
  page('/webhooks', () => import('./pages/operations.tsx'), 'Webhooks'),
  page('/events', () => import('./pages/operations.tsx'), 'Events'),
  page('/jobs', () => import('./pages/operations.tsx'), 'Jobs'),
  page('/audit', () => import('./pages/operations.tsx'), 'Audit'),
  page('/tokens', () => import('./pages/tokens.tsx'), 'Tokens'),
  page('/reconciliation', () => import('./pages/reconciliation.tsx'), 'Reconciliation'),
  page('/find/$id', () => import('./pages/find.tsx'), 'Find'),
]

export function buildRouter(queryClient: QueryClient) {
  return createRouter({
    routeTree: root.addChildren([signIn, inside.addChildren(pages)]),
    basepath: '/console',
    context: { queryClient },
    defaultPreload: false,
    defaultNotFoundComponent: NotFound,
    defaultErrorComponent: PageFailure,
    // Values are plain text, as people would type them.
    parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
    stringifySearch: (search) => {
      const kept = Object.entries(search).filter(([, value]) => value !== undefined && value !== '')
      const text = new URLSearchParams(kept as [string, string][]).toString()
      return text === '' ? '' : `?${text}`
    },
  })
}
