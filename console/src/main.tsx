import './ui/mantine.ts'
import { MantineProvider } from '@mantine/core'
import { Notifications } from '@mantine/notifications'
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { ApiError } from './api/client.ts'
import { buildRouter } from './routes.tsx'
import { LanguageProvider } from './ui/language.tsx'
import { cssVariables, theme } from './ui/theme.ts'

const nonce = document.querySelector('meta[name="csp-nonce"]')?.getAttribute('content') ?? ''
setNonce(nonce)

/** A session that is over, by time or because its token was revoked, leads back to the page it was on. */
function signInAnew(error: unknown): void {
  const { pathname, href } = router.state.location
  if (!(error instanceof ApiError) || error.status !== 401 || pathname.endsWith('/sign-in')) return
  void router
    .navigate({ to: '/sign-in', search: { next: href }, replace: true })
    .then(() => queryClient.clear())
}

const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: signInAnew }),
  mutationCache: new MutationCache({ onError: signInAnew }),
  defaultOptions: {
    queries: {
      staleTime: 3_000,
      retry: (count, error) =>
        count < 2 && (!(error instanceof ApiError) || error.status === 0 || error.status >= 500),
    },
  },
})
const router = buildRouter(queryClient)

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      cssVariablesResolver={cssVariables}
      defaultColorScheme="auto"
      getStyleNonce={() => nonce}
    >
      <LanguageProvider>
        <QueryClientProvider client={queryClient}>
          <Notifications position="top-right" />
          <RouterProvider router={router} />
        </QueryClientProvider>
      </LanguageProvider>
    </MantineProvider>
  </StrictMode>,
)
