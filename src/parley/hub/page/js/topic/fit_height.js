/** Makes a text area as high as its text; CSS sets how far it may grow. */
export function fitHeight(textarea) {
  textarea.style.height = "auto";
  textarea.style.height = `${textarea.scrollHeight + textarea.offsetHeight - textarea.clientHeight}px`;
}
