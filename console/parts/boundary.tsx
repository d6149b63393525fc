/** What cannot be drawn takes nothing else along: the navigation stays, and the place is named. */
import { Component, type ComponentChildren } from "preact";
import { Screen } from "./bits.tsx";

export class Boundary extends Component<{ children: ComponentChildren }, { isBroken: boolean }> {
  override state = { isBroken: false };

  static override getDerivedStateFromError() {
    return { isBroken: true };
  }

  /** Told as any other error of the page is. */
  override componentDidCatch(error: unknown) {
    reportError(error);
  }

  override render() {
    if (!this.state.isBroken) return this.props.children;
    return (
      <Screen title="This page cannot be shown">
        <p class="refusal" role="alert">
          Something on it could not be read. Nothing was changed by looking at it. Tell your operator its
          address.
        </p>
        <button type="button" onClick={() => location.reload()}>
          Load it again
        </button>
      </Screen>
    );
  }
}
