package file

// Origin returns the place of the document that declares a row of a table, as
// "file:line:column", given the row's key as text. It returns "" if there is none.
func (s *Source) Origin(table, key string) string {
	held := s.origins.Load()
	if held == nil {
		return ""
	}
	for _, k := range s.config.Kinds {
		if k.table().Name() == table {
			if d := (*held)[id{k, key}]; d != nil {
				return d.at.String()
			}
		}
	}
	return ""
}
