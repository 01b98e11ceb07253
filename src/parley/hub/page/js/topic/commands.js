/** The keys and palette entries of an open topic. Those about a message mean the one that has the focus. */

export function registerTopicCommands(app, { timeline, composer, actions, head }) {
  const focused = (run) => () => run(timeline.focusedId, timeline.nodeOf(timeline.focusedId));
  const hasFocus = () => timeline.focusedId !== null;
  const commands = [
    { id: "message.next", title: "Next message", keys: "j", run: () => timeline.step(1) },
    { id: "message.previous", title: "Previous message", keys: "k", run: () => timeline.step(-1) },
    { id: "message.reply", title: "Reply to this message", keys: "r", run: focused(actions.reply), when: hasFocus },
    { id: "message.edit", title: "Edit this message", keys: "e", run: focused(actions.edit), when: hasFocus },
    { id: "message.move", title: "Move this message", keys: "m", run: focused(actions.move), when: hasFocus },
    {
      id: "message.history",
      title: "Show this message's history",
      keys: "h",
      run: focused(actions.history),
      when: hasFocus,
    },
    {
      id: "message.link",
      title: "Copy a link to this message",
      keys: "y",
      run: focused(actions.copyLink),
      when: hasFocus,
    },
    {
      id: "message.delete",
      title: "Delete this message",
      keys: "Delete",
      run: focused(actions.remove),
      when: hasFocus,
    },
    { id: "topic.compose", title: "Write a message", keys: "c", run: () => composer.focus() },
    { id: "topic.newest", title: "Jump to the newest message", keys: "Shift+G", run: () => timeline.goToNewest() },
    { id: "topic.oldest", title: "Jump to the oldest message", keys: "g g", run: () => timeline.goToOldest() },
    { id: "topic.rename", title: "Rename this topic", run: head.rename },
    { id: "topic.attachments", title: "Show or hide attachments", keys: "a", run: head.toggleAttachments },
  ];
  const stops = commands.map((command) => app.commands.add(command));
  return () => stops.forEach((stop) => stop());
}
