/** Runs a function at once, then at most once per interval, and always once more after the last call. */
export function throttle(run, intervalMs) {
  let timer = null;
  let again = false;
  const go = () => {
    again = false;
    run();
    timer = setTimeout(() => {
      timer = null;
      if (again) go();
    }, intervalMs);
  };
  const call = () => {
    if (timer === null) go();
    else again = true;
  };
  call.cancel = () => {
    clearTimeout(timer);
    timer = null;
    again = false;
  };
  return call;
}
