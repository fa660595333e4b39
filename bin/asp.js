#!/usr/bin/env node
try {
  require('../dist/start.cjs');
} catch (error) {
  // A clone, or a package that was made from one: npm runs no scripts there (.npmrc), so nothing has built dist.
  if (error.code !== 'MODULE_NOT_FOUND' || error.requireStack?.[0] !== __filename) throw error;
  console.error(
    'error: asp is not built: dist is missing.\n  next, in a clone of its repository: npm ci && npm run build',
  );
  process.exitCode = 1;
}
